"""The cache of compiled modules and imported models: a folder of files that any number of processes share.

    key   = digest of (normalized program, flags, the compiler, this CPU if the flags ask for the host)
    entry = KEY.vmfb: a digest of the key and the module, then the module
    entry = KEY.import: a digest, then a model of PyTorch as StableHLO (models/torch/imports.py)

Modules in the cache contain machine code. The folder must therefore belong to the user, and other users must not be
able to write to the folder or to a folder above it. Otherwise the cache is not used, with a warning. Entries of other
users are not used. Entries are written atomically. A damaged entry is detected and removed when it is read. If the
cache exceeds its size, the least recently used entries are removed.

    TIDUC_CACHE        the folder; `off` disables the cache. Default: `tiduc` in the user's cache folder
    TIDUC_CACHE_SIZE   the most MiB that the cache holds. Default: 1024
    TIDUC_CACHE_DAYS   the days that an unused entry is kept. Default: 30
"""

import errno
import functools
import hashlib
import math
import os
import platform
import re
import secrets
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from iree.compiler.version import VERSION

from tiduc.dialect.errors import RequestError, TiducError, TiducWarning
from tiduc.runtime.private_folder import Folder, NotPrivate, opened

_LAYOUT = b"tiduc cache 8\n"  # increment when keys or entries change
_DIGEST = hashlib.sha256().digest_size
MODULE, IMPORT = "vmfb", "import"
"""The kinds of entries, which are the suffixes of their files: compiled modules, and imported models."""

_ENTRY = re.compile(rf"[0-9a-f]{{64}}\.(?:{MODULE}|{IMPORT})")
_UNFINISHED = re.compile(rf"\.{_ENTRY.pattern}\.[0-9a-f]{{8}}\.tmp")
_ABANDONED = 3600  # seconds after which an unfinished file is removed

# Tokens: strings, comments, white space, locations, parentheses, and runs of other characters.
_TOKENS = re.compile(
    rb'"(?:[^"\\]|\\.)*"|//[^\n]*|\s+|#loc\d*\s*=\s*(?=loc\()|\bloc\(|[()]|[^"\s()/#l]+|.', re.DOTALL
)
# Prefixes of the lines of /proc/cpuinfo that identify a CPU: on x86, Arm, RISC-V.
_CPU = ("vendor_id", "cpu family", "model", "stepping", "flags", "isa", "uarch", "Features", "CPU ")


@dataclass(frozen=True)
class Info:
    """The cache's folder, contents and limits. `folder` is None if the cache is off.

    `refused` is the reason why the folder is not trusted, or None if it is trusted.
    """

    folder: Path | None
    refused: str | None
    entries: int
    bytes: int
    limit: int
    days: float


def folder() -> Path | None:
    """The folder of the cache, or None if the cache is off."""
    chosen = os.environ.get("TIDUC_CACHE", "")
    if chosen.lower() in ("off", "0", "no", "false"):
        return None
    if chosen:
        return Path(chosen)
    with suppress(RuntimeError):  # the user may have no home folder
        caches = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or ""
        # The specification of XDG_CACHE_HOME says to ignore a relative path.
        base = Path(caches) if os.path.isabs(caches) else Path.home() / ".cache"
        return base / "tiduc" if base.is_absolute() else None
    return None


@contextmanager
def _opened(make: bool = False) -> Iterator[Folder]:
    """The open folder.

    Raises `OSError` if the cache is off or unusable. Warns, once for each reason, if it is not trusted.
    """
    place = folder()
    if place is None:
        raise FileNotFoundError(errno.ENOENT, "the cache is off")
    try:
        with opened(place, make) as own:
            yield own
    except NotPrivate as reason:
        _warn(f"the cache of compiled modules is not used: {reason}")
        raise PermissionError(errno.EPERM, str(reason)) from None


@functools.cache
def _warn(message: str) -> None:
    warnings.warn(message, TiducWarning, stacklevel=3)


def key(program: bytes, flags: Sequence[str], compiler: str) -> str:
    """The key of a compilation, from the program, flags, compiler, and this CPU if a flag asks for the host."""
    binary = os.stat(compiler)
    parts = [VERSION, compiler, str(binary.st_size), str(binary.st_mtime_ns), *flags]
    if any(flag.endswith("=host") for flag in flags):
        parts.append(this_cpu())
    return key_of([*(part.encode() for part in parts), normalized(program)])


def key_of(parts: Iterable[bytes | bytearray]) -> str:
    """The key of a sequence of parts. Other sequences have other keys."""
    digest = hashlib.sha256(_LAYOUT)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


def normalized(program: bytes) -> bytes:
    r"""MLIR text without comments and locations, and with single spaces as white space. Bytecode stays unchanged.

    >>> normalized(b'func.func @f()  // a function\n{ return loc(#loc3) } loc("f.mlir":1:1)')
    b'func.func @f() { return }'
    """
    if program.startswith(b"ML\xefR"):
        return program
    kept: list[bytes] = []
    depth = 0  # the depth of brackets within a location
    for token in _TOKENS.findall(program):
        if depth:
            depth += (token in (b"(", b"loc(")) - (token == b")")
        elif token == b"loc(":
            depth = 1
        elif token.startswith(b"#loc"):
            continue  # `#loc3 = loc(...)`: the next tokens are the location
        elif token.startswith(b"//") or token.isspace():
            if kept and kept[-1] != b" ":
                kept.append(b" ")
        else:
            kept.append(token)
    return b"".join(kept).strip()


@functools.cache
def this_cpu() -> str:
    """The model and features of this CPU, on which code for the compiler's target `host` depends."""
    described = {platform.machine(), platform.processor()}
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        described |= {" ".join(line.split()) for line in file if line.startswith(_CPU)}
    return "\n".join(sorted(described))


def read(key: str, kind: str = MODULE) -> bytes | None:
    """The module of this key, or the entry of another kind. None if it is missing or damaged.

    Raises `RequestError` if an environment variable of the cache is invalid.
    """
    if folder() is None:
        return None
    limit, _ = _limit(), _days()  # check both variables before a long compilation
    name = f"{key}.{kind}"
    with suppress(OSError), _opened() as own:
        contents = own.read(name, limit)
        module = contents[_DIGEST:]
        if module and _digest(key, module) == contents[:_DIGEST]:
            own.mark_used(name)
            return module
        own.remove(name)
    return None


def _digest(key: str, module: bytes) -> bytes:
    """The digest at the start of an entry. It covers the key, so that a renamed entry counts as damaged."""
    digest = hashlib.sha256(f"{key}\n".encode())
    digest.update(module)
    return digest.digest()


def write(key: str, module: bytes, kind: str = MODULE) -> None:
    """Adds a module, or an entry of another kind, and removes old and excess entries.

    Ignores errors; the entry may then be missing.
    """
    with suppress(OSError, TiducError), _opened(make=True) as own:
        unfinished = f".{key}.{kind}.{secrets.token_hex(4)}.tmp"
        own.write(f"{key}.{kind}", _digest(key, module) + module, unfinished)
        _prune(own)


def clear() -> int:
    """Removes all entries and returns their number.

    Raises `TiducError` for a system error, and for a folder that is not trusted.
    """
    removed = 0
    if (place := folder()) is None:
        return removed
    try:
        with _readable(place) as own:
            if own is None:
                return removed
            for name, _ in _entries(own):
                try:
                    own.remove(name)
                    removed += 1
                except FileNotFoundError:  # another process was faster
                    pass
                except OSError as error:
                    raise TiducError(
                        f"cannot remove: {error.strerror or error}", str(place / name)
                    ) from error
    except NotPrivate as reason:
        raise TiducError(f"nothing is removed: {reason}", str(place)) from None
    return removed


def info() -> Info:
    """The cache's folder, contents and limits. A folder that is not trusted is not read, and counts as empty."""
    place = folder()
    refused, sizes = None, list[int]()
    if place is not None:
        try:
            with _readable(place) as own:
                sizes = [status.st_size for _, status in _entries(own)] if own else []
        except NotPrivate as reason:
            refused = str(reason)
    return Info(place, refused, len(sizes), sum(sizes), _limit(), _days())


@contextmanager
def _readable(place: Path) -> Iterator[Folder | None]:
    """The open folder, or None if it does not exist yet.

    Raises NotPrivate if the folder is not trusted, and TiducError for a system error.
    """
    with ExitStack() as stack:
        try:
            own = stack.enter_context(opened(place))
        except FileNotFoundError:
            own = None
        except OSError as error:
            raise TiducError(f"cannot read: {error.strerror or error}", str(place)) from error
        yield own


def _limit() -> int:
    """The most bytes that the cache may hold."""
    return int(_number("TIDUC_CACHE_SIZE", 1024) * 2**20)


def _days() -> float:
    """The number of days that an unused entry is kept."""
    return _number("TIDUC_CACHE_DAYS", 30)


def _number(variable: str, default: float) -> float:
    text = os.environ.get(variable) or str(default)
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise RequestError(f"{variable} must be a number of at least 0, not: {text!r}")
    return number


def _entries(own: Folder, name: re.Pattern[str] = _ENTRY) -> list[tuple[str, os.stat_result]]:
    """The files in the folder whose names match `name`. Raises TiducError for a system error."""
    try:
        return [(found, status) for found, status in own.files() if name.fullmatch(found)]
    except OSError as error:
        raise TiducError(f"cannot read: {error.strerror or error}", str(own.path)) from error


def _prune(own: Folder) -> None:
    """Removes old entries, and the least recently used entries beyond the size limit."""
    now, left = time.time(), _limit()
    for name, status in _entries(own, _UNFINISHED):
        if now - status.st_mtime > _ABANDONED:
            with suppress(OSError):
                own.remove(name)
    stats = [(status.st_mtime, status.st_size, name) for name, status in _entries(own)]
    for used, size, name in sorted(stats, reverse=True):
        left -= size
        if left < 0 or now - used > _days() * 86400:
            with suppress(OSError):
                own.remove(name)
