"""The cache of compiled modules: a folder with one file per module, shared by any number of processes.

    key   = digest of (normalized program, flags, the compiler, this CPU if the flags ask for the host)
    entry = KEY.vmfb: a digest of the key and the module, then the module

A process runs machine code from the cache. The folder must therefore belong to the user, and other
users must not be able to write to it or to a folder above it; otherwise the cache is not used, with a warning.
Entries are written atomically. A damaged entry is detected when it is read, and removed. The least recently used
entries are removed first when the cache exceeds its size.

    TIDUC_CACHE        the folder; `off` disables the cache. Default: `tiduc` in the user's cache folder
    TIDUC_CACHE_SIZE   the most MiB that the cache holds. Default: 1024
    TIDUC_CACHE_DAYS   the days that an unused entry is kept. Default: 30
"""

import functools
import hashlib
import math
import os
import platform
import re
import secrets
import stat
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from iree.compiler.version import VERSION

from tiduc.dialect.errors import RequestError, TiducError, TiducWarning
from tiduc.runtime.files import read_regular

_LAYOUT = b"tiduc cache 8\n"  # increment when keys or entries change
_DIGEST = hashlib.sha256().digest_size
_ENTRY = re.compile(r"[0-9a-f]{64}\.vmfb")
_UNFINISHED = re.compile(r"\.[0-9a-f]{64}\.vmfb\.[0-9a-f]{8}\.tmp")
_ABANDONED = 3600  # seconds after which an unfinished file is removed

# Tokens: strings, comments, white space, locations, parentheses, and runs of other characters.
_TOKENS = re.compile(
    rb'"(?:[^"\\]|\\.)*"|//[^\n]*|\s+|#loc\d*\s*=\s*(?=loc\()|\bloc\(|[()]|[^"\s()/#l]+|.', re.DOTALL
)
# Prefixes of the lines of /proc/cpuinfo that identify a CPU: on x86, Arm, RISC-V.
_CPU = ("vendor_id", "cpu family", "model", "stepping", "flags", "isa", "uarch", "Features", "CPU ")


@dataclass(frozen=True)
class Info:
    """The cache's folder, contents and limits; `folder` is None if the cache is off.

    `refused` says why the folder is not trusted; None if it is.
    """

    folder: Path | None
    refused: str | None
    entries: int
    bytes: int
    limit: int
    days: float


def folder() -> Path | None:
    """The folder of the cache; None if the cache is off."""
    chosen = os.environ.get("TIDUC_CACHE", "")
    if chosen.lower() in ("off", "0", "no", "false"):
        return None
    if chosen:
        return Path(chosen)
    with suppress(RuntimeError):  # there may be no home
        caches = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or ""
        # The specification of XDG_CACHE_HOME says to ignore a relative path.
        base = Path(caches) if os.path.isabs(caches) else Path.home() / ".cache"
        return base / "tiduc" if base.is_absolute() else None
    return None


def distrusted(place: Path) -> str | None:
    """Why modules in this folder are not safe to run, because others could have written them; None if they are.

    The folder must belong to the user, each folder above it to the user or root, and others must not be able to write
    there. A folder above may have the sticky bit, like /tmp: others cannot rename files there that they do not own.
    """
    if os.name != "posix":
        return None
    for path in _from_root(place):
        try:
            status = os.lstat(path)
        except OSError:  # missing, or not usable anyway
            continue
        itself, user = path == os.path.realpath(place), os.geteuid()
        if status.st_uid != user and (itself or status.st_uid != 0):
            return f"{path} belongs to another user"
        sticky = status.st_mode & stat.S_ISVTX and not itself
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not sticky:
            return f"others may write to {path} (chmod go-w changes that)"
    return None


def _from_root(place: Path) -> list[str]:
    """All folders above the folder, from the root, then the folder; symbolic links are resolved."""
    real = Path(os.path.realpath(place))
    return [str(path) for path in (*reversed(real.parents), real)]


def _trusted() -> Path | None:
    """The folder, or None if the cache is off or the folder is not trusted; warns once if it is not trusted."""
    place = folder()
    reason = distrusted(place) if place is not None else None
    if reason is not None:
        _warn(f"the cache of compiled modules is not used: {reason}")
        return None
    return place


@functools.cache
def _warn(message: str) -> None:
    warnings.warn(message, TiducWarning, stacklevel=3)


def key(program: bytes, flags: Sequence[str], compiler: str) -> str:
    """The key of a compilation: program, flags, compiler, and this CPU if a flag asks for the host."""
    digest = hashlib.sha256(_LAYOUT)
    binary = os.stat(compiler)
    parts = [VERSION, compiler, str(binary.st_size), str(binary.st_mtime_ns), *flags]
    if any(flag.endswith("=host") for flag in flags):
        parts.append(this_cpu())
    for part in (*(part.encode() for part in parts), normalized(program)):
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def normalized(program: bytes) -> bytes:
    """MLIR text without comments and locations, and with white space collapsed; bytecode unchanged.

    >>> normalized(b'func.func @f()  // a function\\n{ return loc(#loc3) } loc("f.mlir":1:1)')
    b'func.func @f() { return }'
    """
    if program.startswith(b"ML\xefR"):
        return program
    kept: list[bytes] = []
    depth = 0  # of brackets within a location
    for token in _TOKENS.findall(program):
        if depth:
            depth += (token in (b"(", b"loc(")) - (token == b")")
        elif token == b"loc(":
            depth = 1
        elif token.startswith(b"#loc"):
            continue  # of `#loc3 = loc(...)`; the next tokens are the location
        elif token.startswith(b"//") or token.isspace():
            if kept and kept[-1] != b" ":
                kept.append(b" ")
        else:
            kept.append(token)
    return b"".join(kept).strip()


@functools.cache
def this_cpu() -> str:
    """The CPU's model and features, which the compiler's `host` stands for."""
    described = {platform.machine(), platform.processor()}
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        described |= {" ".join(line.split()) for line in file if line.startswith(_CPU)}
    return "\n".join(sorted(described))


def read(key: str) -> bytes | None:
    """The module of this key; None if it is missing or damaged. Raises RequestError for a wrong variable."""
    place = _trusted()
    if place is None:
        return None
    limit, _ = _limit(), _days()  # check both variables before a long compilation
    path = place / f"{key}.vmfb"
    with suppress(OSError):
        contents = read_regular(path, limit)
        module = contents[_DIGEST:]
        if module and _digest(key, module) == contents[:_DIGEST]:
            os.utime(path)  # marks it as used
            return module
        path.unlink()
    return None


def _digest(key: str, module: bytes) -> bytes:
    """The digest in front of a module in its entry. It covers the key, so a renamed entry counts as damaged."""
    digest = hashlib.sha256(f"{key}\n".encode())
    digest.update(module)
    return digest.digest()


def write(key: str, module: bytes) -> None:
    """Adds a module, and removes old and excess entries; a system error only means that nothing is added."""
    place = _trusted()
    if place is None:
        return
    with suppress(OSError, TiducError):
        for path in _from_root(place):  # `os.makedirs` would make missing parents writable by others
            if not os.path.lexists(path):
                with suppress(FileExistsError):
                    os.mkdir(path, 0o700)
        unfinished = place / f".{key}.vmfb.{secrets.token_hex(4)}.tmp"
        try:
            with open(unfinished, "xb", opener=_private) as file:
                file.write(_digest(key, module) + module)
            os.replace(unfinished, place / f"{key}.vmfb")
        except BaseException:
            with suppress(OSError):
                os.unlink(unfinished)
            raise
        _prune(place)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def clear() -> int:
    """Removes all entries; their number. Raises TiducError if the folder is not trusted, or for a system error."""
    place = folder()
    reason = distrusted(place) if place is not None else None
    if reason is not None:
        raise TiducError(f"nothing is removed: {reason}", str(place))
    removed = 0
    for entry, _ in _entries(place) if place else ():
        try:
            os.unlink(entry)
            removed += 1
        except FileNotFoundError:  # another process was faster
            pass
        except OSError as error:
            raise TiducError(f"cannot remove: {error.strerror or error}", entry.path) from error
    return removed


def info() -> Info:
    """The cache's folder, contents and limits."""
    place = folder()
    sizes = [status.st_size for _, status in _entries(place)] if place else []
    return Info(place, distrusted(place) if place else None, len(sizes), sum(sizes), _limit(), _days())


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


def _entries(
    place: Path, name: re.Pattern[str] = _ENTRY
) -> Iterator[tuple["os.DirEntry[str]", os.stat_result]]:
    """The files in the folder whose names match `name`. Raises TiducError for a system error."""
    try:
        with os.scandir(place) as files:
            for entry in files:
                with suppress(FileNotFoundError):  # removed meanwhile
                    if name.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                        yield entry, entry.stat(follow_symlinks=False)
    except FileNotFoundError:  # nothing was kept yet
        pass
    except OSError as error:
        raise TiducError(f"cannot read: {error.strerror or error}", str(place)) from error


def _prune(place: Path) -> None:
    """Removes old entries, and the least recently used entries beyond the size limit."""
    now, left = time.time(), _limit()
    for entry, status in _entries(place, _UNFINISHED):
        if now - status.st_mtime > _ABANDONED:
            with suppress(OSError):
                os.unlink(entry)
    stats = [(status.st_mtime, status.st_size, entry.path) for entry, status in _entries(place)]
    for used, size, path in sorted(stats, reverse=True):
        left -= size
        if left < 0 or now - used > _days() * 86400:
            with suppress(OSError):
                os.unlink(path)
