"""Watches this process while it reads a file. It must not use another file, a process, the network or a pickle.

Python's audit events report uses of files, processes, sockets, libraries and pickles. Native code raises no audit
events. To notice its effects, new files in the folder of the input are forbidden, and the fuzzer can be run under
`strace`.
"""

import os
import site
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from outcomes import Outside

PROCESSOR_SECONDS = 20.0
"""The limit of the processor time in which a file must be read and imported."""
_ENDS_PROCESS = (
    "subprocess.",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.spawn",
    "os.fork",
    "os.startfile",
    "pty.",
)
_FORBIDDEN = (
    *_ENDS_PROCESS,
    "socket.",
    "ctypes.dlopen",
    "pickle.find_class",
    "shutil.",
    "webbrowser.",
    "urllib.",
)
_CHANGES = (
    "os.mkdir",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.symlink",
    "os.link",
    "os.chmod",
    "os.truncate",
)
_LIBRARIES = (
    *(sysconfig.get_path("stdlib"), *site.getsitepackages(), str(Path(__file__).resolve().parents[2])),
    *("/dev/null", "/proc/", "/sys/", *(place for place in sys.path if place)),
)
"""Prefixes of paths of files that may be read, in addition to the folder of the input."""

_seen: list[str] | None = None
"""The forbidden events since the beginning of `watched`, or None outside of `watched`."""
_folder = ""


@contextmanager
def watched(folder: Path) -> Iterator[None]:
    """Enters a context. At its end, raises `Outside` if the process did something that reading a file must not do."""
    global _seen, _folder
    _watch()
    before, started = _listed(folder), time.process_time()
    _seen, _folder = [], str(folder)
    try:
        yield
    finally:
        seen, _seen = _seen, None
        took = time.process_time() - started
        if appeared := _listed(folder) - before:
            seen.append(f"made {', '.join(sorted(appeared))}")
        if took > PROCESSOR_SECONDS:
            seen.append(f"took {took:.0f} s of processor time")
        if seen:
            raise Outside("; ".join(seen[:5])) from None


def _listed(folder: Path) -> set[str]:
    """Returns the paths of all files and folders in a folder and in its parent."""
    return {str(path) for place in (folder, folder.parent) for path in place.iterdir()}


@cache
def _watch() -> None:
    sys.addaudithook(_audit)


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _seen is None:
        return
    if event.startswith(_FORBIDDEN):
        _seen.append(f"{event} {arguments!r:.200}")
    elif event.startswith(_CHANGES) and _may_change(event, arguments[0]):
        _seen.append(f"{event} {arguments!r:.200}")
    elif event == "open" and not isinstance(arguments[0], int) and not _may_open(*arguments):
        _seen.append(f"open {arguments!r:.200}")


def _may_change(event: str, path: Any) -> bool:
    """Returns whether an event changes a path outside of the folder for temporary files.

    `os.mkdir` of a folder that already exists does not count as a change.
    """
    exists = event == "os.mkdir" and os.path.isdir(path)
    return not exists and not _is_within(path, os.path.join(_folder, "tmp"))


def _may_open(path: Any, mode: Any, flags: Any) -> bool:
    writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) != 0
    if writes:
        return _is_within(path, os.path.join(_folder, "tmp")) or os.fspath(path) == os.devnull
    return _is_within(path, _folder) or any(_is_within(path, place) for place in _LIBRARIES)


def _is_within(path: Any, folder: str) -> bool:
    return os.path.realpath(os.fsdecode(path)).startswith(os.path.realpath(folder))
