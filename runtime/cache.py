"""The cache of compiled modules and imported models: a folder of files that any number of processes share.

    KEY          a digest of the normalized program, the flags, the compiler and, if a flag asks for the host, this CPU
    KEY.vmfb     an entry: a digest of the key and the module, then the module
    KEY.import   an entry: a digest of the key and the model, then an imported PyTorch model (models/torch/imports.py)

Modules in the cache contain machine code. The folder must therefore belong to the user, and other users must not be
able to write to the folder or to a folder above it. Otherwise tiduc warns and does not use the cache. It also ignores
entries that belong to other users. Entries are written atomically. A damaged entry is detected and removed when it is
read. If the entries exceed the size limit, the least recently used entries are removed.

    TIDUC_CACHE        the folder; `off` disables the cache. Default: `tiduc` in the user's cache folder
    TIDUC_CACHE_SIZE   the maximum size of the cache in MiB. Default: 1024
    TIDUC_CACHE_DAYS   the number of days after which an unused entry is removed. Default: 30
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
"""The kinds of entries: compiled modules and imported models. Each kind is the suffix of the entry's file name."""

_ENTRY = re.compile(rf"[0-9a-f]{{64}}\.(?:{MODULE}|{IMPORT})")
_UNFINISHED = re.compile(rf"\.{_ENTRY.pattern}\.[0-9a-f]{{8}}\.tmp")
_ABANDONED = 3600  # seconds after which an unfinished file is removed

# Tokens: strings, comments, white space, locations, parentheses, and runs of other characters.
_TOKENS = re.compile(
    rb'"(?:[^"\\]|\\.)*"|//[^\n]*|\s+|#loc\d*\s*=\s*(?=loc\()|\bloc\(|[()]|[^"\s()/#l]+|.', re.DOTALL
)
# The prefixes of the lines of /proc/cpuinfo that identify a CPU on x86, Arm and RISC-V.
_CPU = ("vendor_id", "cpu family", "model", "stepping", "flags", "isa", "uarch", "Features", "CPU ")


@dataclass(frozen=True)
class Info:
    """The state of the cache: its folder, the number and total bytes of its entries, and its limits in bytes and days.

    `folder` is None if the cache is off. `refused` is the reason why the folder is not trusted, or None if it is
    trusted.
    """

    folder: Path | None
    refused: str | None
    entries: int
    bytes: int
    limit: int
    days: float


def folder() -> Path | None:
    """Returns the folder of the cache, or None if the cache is off."""
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
    """A context with the open folder of the cache.

    Raises `OSError` if the cache is off, or if its folder cannot be opened or is not trusted. If the folder is not
    trusted, also warns, once for each reason.
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
    """Returns the key of a compilation.

    The key is a digest of the program, the flags, the compiler and, if a flag asks for the host, this CPU.
    """
    binary = os.stat(compiler)
    parts = [VERSION, compiler, str(binary.st_size), str(binary.st_mtime_ns), *flags]
    if any(flag.endswith("=host") for flag in flags):
        parts.append(this_cpu())
    return key_of([*(part.encode() for part in parts), normalized(program)])


def key_of(parts: Iterable[bytes | bytearray]) -> str:
    """Returns the digest of a sequence of parts.

    The digest covers the lengths of the parts, so that the sequences (ab, c) and (a, bc) have different keys.
    """
    digest = hashlib.sha256(_LAYOUT)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


def normalized(program: bytes) -> bytes:
    r"""Removes comments and locations from MLIR text, and replaces white space by single spaces. Returns bytecode
    unchanged.

    >>> normalized(b'func.func @f()  // a function\n{ return loc(#loc3) } loc("f.mlir":1:1)')
    b'func.func @f() { return }'
    """
    if program.startswith(b"ML\xefR"):
        return program
    kept: list[bytes] = []
    depth = 0  # the number of open parentheses within a location
    for token in _TOKENS.findall(program):
        if depth:
            depth += (token in (b"(", b"loc(")) - (token == b")")
        elif token == b"loc(":
            depth = 1
        elif token.startswith(b"#loc"):
            continue  # the beginning of `#loc3 = loc(...)`; the next tokens are the location
        elif token.startswith(b"//") or token.isspace():
            if kept and kept[-1] != b" ":
                kept.append(b" ")
        else:
            kept.append(token)
    return b"".join(kept).strip()


@functools.cache
def this_cpu() -> str:
    """Describes the model and the features of this CPU. Code that is compiled for the target CPU `host` depends on
    them.
    """
    described = {platform.machine(), platform.processor()}
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        described |= {" ".join(line.split()) for line in file if line.startswith(_CPU)}
    return "\n".join(sorted(described))


def read(key: str, kind: str = MODULE) -> bytes | None:
    """Returns the module, or the entry of another kind, with this key.

    Returns None if the entry is missing or damaged, and removes a damaged entry. Raises `RequestError` if an
    environment variable of the cache is invalid.
    """
    if folder() is None:
        return None
    limit, _ = _limit(), _days()  # an invalid variable raises an error here, before a long compilation
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
    """The digest at the start of an entry. It covers the key, so that `read` treats a renamed entry as damaged."""
    digest = hashlib.sha256(f"{key}\n".encode())
    digest.update(module)
    return digest.digest()


def write(key: str, module: bytes, kind: str = MODULE) -> None:
    """Adds a module, or an entry of another kind, to the cache. Then removes the entries that exceed the cache's
    limits.

    Ignores errors. After an error, the entry may be missing.
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
                except FileNotFoundError:  # another process has removed the entry
                    pass
                except OSError as error:
                    raise TiducError(
                        f"cannot remove: {error.strerror or error}", str(place / name)
                    ) from error
    except NotPrivate as reason:
        raise TiducError(f"nothing is removed: {reason}", str(place)) from None
    return removed


def info() -> Info:
    """Returns the state of the cache. A folder that is not trusted is not read, and its entries do not count."""
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
    """A context with the open folder at `place`, or with None if the folder does not exist.

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
    """The maximum size of the cache in bytes."""
    return int(_number("TIDUC_CACHE_SIZE", 1024) * 2**20)


def _days() -> float:
    """The number of days after which an unused entry is removed."""
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
    """The names and the status of the files in the folder whose names match `name`. Raises TiducError for a system
    error.
    """
    try:
        return [(found, status) for found, status in own.files() if name.fullmatch(found)]
    except OSError as error:
        raise TiducError(f"cannot read: {error.strerror or error}", str(own.path)) from error


def _prune(own: Folder) -> None:
    """Removes abandoned unfinished files and expired entries, then the least recently used entries beyond the limit."""
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
