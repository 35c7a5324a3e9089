"""The cache of compiled modules: a folder with one file for each, which any number of processes share.

    key   = digest of (program without what does not matter, flags, the compiler, this CPU where it matters)
    entry = KEY.vmfb: a digest of the module, then the module

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
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from iree.compiler.version import VERSION

from tiduc.dialect.errors import RequestError, TiducError
from tiduc.runtime.files import written_whole

_LAYOUT = b"tiduc cache 7\n"  # a new number wherever the key or the entries become others
_DIGEST = hashlib.sha256().digest_size
_ABANDONED = 3600  # seconds after which an unfinished file is nobody's

# Strings are kept as they are; of the rest, what separates words.
_TOKENS = re.compile(
    rb'"(?:[^"\\]|\\.)*"|//[^\n]*|\s+|#loc\d*\s*=\s*(?=loc\()|\bloc\(|[()]|[^"\s()/#l]+|.', re.DOTALL
)
# What tells one CPU from another in /proc/cpuinfo: on x86, Arm, RISC-V.
_CPU = ("vendor_id", "cpu family", "model", "stepping", "flags", "isa", "uarch", "Features", "CPU ")


@dataclass(frozen=True)
class Info:
    """Where the cache is, what it holds and what it may hold; `folder` is None where it is off."""

    folder: Path | None
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
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    with suppress(RuntimeError):  # there may be no home
        return Path(base or Path.home() / ".cache") / "tiduc"
    return None


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
    place = folder()
    if place is None:
        return None
    _limit(), _days()  # which are needed later, after a compilation that would be in vain
    path = place / f"{key}.vmfb"
    try:
        contents = path.read_bytes()
        module = contents[_DIGEST:]
        if module and hashlib.sha256(module).digest() == contents[:_DIGEST]:
            os.utime(path)  # it was used now
            return module
        path.unlink()
    except OSError:
        pass
    return None


def write(key: str, module: bytes) -> None:
    """Keep a module, and throw away what is too old or too much; where the system refuses, nothing is kept."""
    place = folder()
    if place is None:
        return
    with suppress(OSError, TiducError):
        # Only for the user: whoever writes here has his code run.
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        with written_whole(place / f"{key}.vmfb") as file:
            file.write(hashlib.sha256(module).digest() + module)
        _prune(place)


def clear() -> int:
    """Throw all entries away; their number. Raises TiducError where the system refuses."""
    place = folder()
    removed = 0
    for entry in _entries(place) if place else ():
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
    sizes = []
    for entry in _entries(place) if place else ():
        with suppress(OSError):
            sizes.append(entry.stat().st_size)
    return Info(place, len(sizes), sum(sizes), _limit(), _days())


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


def _entries(place: Path) -> Iterator["os.DirEntry[str]"]:
    """The files of modules in the folder. Raises TiducError where the system refuses."""
    try:
        with os.scandir(place) as found:
            yield from (entry for entry in found if entry.name.endswith(".vmfb"))
    except FileNotFoundError:  # nothing was kept yet
        pass
    except OSError as error:
        raise TiducError(f"cannot read: {error.strerror or error}", str(place)) from error


def _prune(place: Path) -> None:
    """Throw away what is too old, then what was not used for longest until the rest is not too much."""
    now, left = time.time(), _limit()
    with os.scandir(place) as found:
        for entry in found:
            if entry.name.endswith(".tmp") and now - entry.stat().st_mtime > _ABANDONED:
                os.unlink(entry)
    stats = []
    for entry in _entries(place):
        with suppress(OSError):
            stats.append((entry.stat().st_mtime, entry.stat().st_size, entry.path))
    for used, size, path in sorted(stats, reverse=True):
        left -= size
        if left < 0 or now - used > _days() * 86400:
            with suppress(OSError):
                os.unlink(path)
