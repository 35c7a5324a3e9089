"""The cache of compiled modules: a folder with one file for each, which any number of processes share.

    key   = digest of (program without what does not matter, flags, the compiler, this CPU where it matters)
    entry = KEY.vmfb: a digest of the key and the module, then the module

A process runs the machine code that it reads here, so the folder must belong to the user, and neither the folder nor
one above it may be writable by others; otherwise a warning says so, and nothing is read or written.
An entry appears whole or not at all, is checked when it is read, and is thrown away where it is damaged.  What was
not used for longest goes first, once there is too much.

    TIDUC_CACHE        the folder; `off` for no cache.  By default tiduc in the user's folder of caches
    TIDUC_CACHE_SIZE   MiB that it may hold, 1024 by default
    TIDUC_CACHE_DAYS   days that an entry is kept without being used, 30 by default
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

_LAYOUT = b"tiduc cache 8\n"  # a new number wherever the key or the entries become others
_DIGEST = hashlib.sha256().digest_size
_ENTRY = re.compile(r"[0-9a-f]{64}\.vmfb")
_UNFINISHED = re.compile(r"\.[0-9a-f]{64}\.vmfb\.[0-9a-f]{8}\.tmp")
_ABANDONED = 3600  # seconds after which an unfinished file is nobody's

# Strings are kept as they are; of the rest, what separates words.
_TOKENS = re.compile(
    rb'"(?:[^"\\]|\\.)*"|//[^\n]*|\s+|#loc\d*\s*=\s*(?=loc\()|\bloc\(|[()]|[^"\s()/#l]+|.', re.DOTALL
)
# What tells one CPU from another in /proc/cpuinfo: on x86, Arm, RISC-V.
_CPU = ("vendor_id", "cpu family", "model", "stepping", "flags", "isa", "uarch", "Features", "CPU ")


@dataclass(frozen=True)
class Info:
    """Where the cache is, what it holds and what it may hold; `folder` is None where it is off.

    `refused` says why the folder is not used, where it is not.
    """

    folder: Path | None
    refused: str | None
    entries: int
    bytes: int
    limit: int
    days: float


def folder() -> Path | None:
    """Where the entries are; None where the cache is off."""
    chosen = os.environ.get("TIDUC_CACHE", "")
    if chosen.lower() in ("off", "0", "no", "false"):
        return None
    if chosen:
        return Path(chosen)
    with suppress(RuntimeError):  # there may be no home
        caches = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or ""
        # A relative path is to be ignored, says the specification of XDG_CACHE_HOME.
        base = Path(caches) if os.path.isabs(caches) else Path.home() / ".cache"
        return base / "tiduc" if base.is_absolute() else None
    return None


def distrusted(place: Path) -> str | None:
    """Why modules in this folder are not to be run, or None: someone else could have put them there.

    The folder belongs to the user, each folder above it to the user or root, and no others may write there.  A folder
    above may have the sticky bit, as /tmp does: others cannot rename what is not theirs in it.
    """
    if os.name != "posix":
        return None
    for path in _from_root(place):
        try:
            found = os.lstat(path)
        except OSError:  # it is not there yet, or cannot be used anyway
            continue
        itself, user = path == os.path.realpath(place), os.geteuid()
        if found.st_uid != user and (itself or found.st_uid != 0):
            return f"{path} belongs to another user"
        sticky = found.st_mode & stat.S_ISVTX and not itself
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not sticky:
            return f"others may write to {path} (chmod go-w changes that)"
    return None


def _from_root(place: Path) -> list[str]:
    """The folder, without links, after all folders above it."""
    real = Path(os.path.realpath(place))
    return [str(path) for path in (*reversed(real.parents), real)]


def _trusted() -> Path | None:
    """The folder, if there is one to use; the first time that there is none, a warning says why."""
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
    """The name of what this compiler makes of the program with these flags, on this CPU if it asks for that."""
    digest = hashlib.sha256(_LAYOUT)
    binary = os.stat(compiler)
    parts = [VERSION, compiler, str(binary.st_size), str(binary.st_mtime_ns), *flags]
    if any(flag.endswith("=host") for flag in flags):
        parts.append(this_cpu())
    for part in (*(part.encode() for part in parts), normalized(program)):
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def normalized(program: bytes) -> bytes:
    """MLIR text without comments and locations, one space for any; bytecode as it is.

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
            continue  # `#loc3 = loc(...)`, of which the rest goes next
        elif token.startswith(b"//") or token.isspace():
            if kept and kept[-1] != b" ":
                kept.append(b" ")
        else:
            kept.append(token)
    return b"".join(kept).strip()


@functools.cache
def this_cpu() -> str:
    """What the compiler's `host` stands for: the CPU's model and what it can do."""
    described = {platform.machine(), platform.processor()}
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        described |= {" ".join(line.split()) for line in file if line.startswith(_CPU)}
    return "\n".join(sorted(described))


def read(key: str) -> bytes | None:
    """The module of this key; None where there is none, or a damaged one. Raises RequestError for a wrong variable."""
    place = _trusted()
    if place is None:
        return None
    limit, _ = _limit(), _days()  # which are needed later, after a compilation that would be in vain
    path = place / f"{key}.vmfb"
    with suppress(OSError):
        contents = read_regular(path, limit)
        module = contents[_DIGEST:]
        if module and _digest(key, module) == contents[:_DIGEST]:
            os.utime(path)  # it was used now
            return module
        path.unlink()
    return None


def _digest(key: str, module: bytes) -> bytes:
    """What stands before a module in the entry of its key: under another key, the entry is damaged."""
    digest = hashlib.sha256(f"{key}\n".encode())
    digest.update(module)
    return digest.digest()


def write(key: str, module: bytes) -> None:
    """Keep a module, and throw away what is too old or too much; where the system refuses, nothing is kept."""
    place = _trusted()
    if place is None:
        return
    with suppress(OSError, TiducError):
        for path in _from_root(place):  # whose missing parents `os.makedirs` would let others write to
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
    """Throw all entries away; their number. Raises TiducError where the folder is not trusted or the system refuses."""
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
    """What there is."""
    place = folder()
    sizes = [found.st_size for _, found in _entries(place)] if place else []
    return Info(place, distrusted(place) if place else None, len(sizes), sum(sizes), _limit(), _days())


def _limit() -> int:
    """The bytes that the cache may hold."""
    return int(_number("TIDUC_CACHE_SIZE", 1024) * 2**20)


def _days() -> float:
    """How long an entry is kept without being used."""
    return _number("TIDUC_CACHE_DAYS", 30)


def _number(variable: str, default: float) -> float:
    text = os.environ.get(variable) or str(default)
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise RequestError(f"{variable} is no number of 0 or more: {text!r}")
    return number


def _entries(
    place: Path, name: re.Pattern[str] = _ENTRY
) -> Iterator[tuple["os.DirEntry[str]", os.stat_result]]:
    """The files of modules in the folder; nothing else that is there. Raises TiducError where the system refuses."""
    try:
        with os.scandir(place) as found:
            for entry in found:
                with suppress(FileNotFoundError):  # it is gone since
                    if name.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                        yield entry, entry.stat(follow_symlinks=False)
    except FileNotFoundError:  # nothing was kept yet
        pass
    except OSError as error:
        raise TiducError(f"cannot read: {error.strerror or error}", str(place)) from error


def _prune(place: Path) -> None:
    """Throw away what is too old, then what was not used for longest until the rest is not too much."""
    now, left = time.time(), _limit()
    for entry, found in _entries(place, _UNFINISHED):
        if now - found.st_mtime > _ABANDONED:
            with suppress(OSError):
                os.unlink(entry)
    stats = [(found.st_mtime, found.st_size, entry.path) for entry, found in _entries(place)]
    for used, size, path in sorted(stats, reverse=True):
        left -= size
        if left < 0 or now - used > _days() * 86400:
            with suppress(OSError):
                os.unlink(path)
