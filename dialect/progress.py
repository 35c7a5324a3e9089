"""Records the current stage and file, so that the driver can report them after this process has crashed.

A `Watcher` is notified when stages begin and end; it may measure their times or print their IR. A listener gets
messages about the progress within a stage, such as "executable 5 of 12".

On the command line, a worker process does the work, and a driver process (tiduc/driver.py) reports crashes of the
worker. The worker keeps the record in memory that both share. In other processes, the record is in private memory,
and no other process reads it.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from mmap import mmap
from typing import Protocol

SIZE = 8192
_STAGE = slice(0, 64)
_JOINED = 64
_FILE = slice(65, SIZE)
_LARGEST_SOURCE = 2**26  # the most bytes of a source that are saved for the driver


class Watcher(Protocol):
    """An interface for objects that are notified of stages. The stages of one thread are nested."""

    def entered(self, stage: str) -> None:
        """Called when a stage begins."""

    def left(self, stage: str, arguments: Sequence[object], result: object) -> None:
        """Called when a stage ends. `arguments` are its positional arguments. `result` is None if the stage raises."""


_watchers: tuple[Watcher, ...] = ()
_listeners: tuple[Callable[[str], None], ...] = ()
_started: float | None = None
_page: mmap | bytearray = bytearray(SIZE)
_source: int | None = None  # a file descriptor, to which `keep` writes


def start() -> None:
    """Stores the current time as the start of the command line, which now imports its packages."""
    global _started
    _started = time.perf_counter()


def started() -> float | None:
    """The value of `time.perf_counter` at the start of the command line; None in other processes."""
    return _started


def share(page: mmap, source: int) -> None:
    """From now on, the record is in the shared memory `page`, and `keep` writes to the file descriptor `source`."""
    global _page, _source
    _page, _source = page, source


def enter(stage: str) -> str:
    """Records that a stage starts. Returns the name of the stage that was recorded before, which is interrupted.

    When the new stage ends, the caller must record the interrupted stage again.
    """
    before = _text(_page[_STAGE])
    _page[_STAGE] = stage.encode()[:64].ljust(64, b"\0")
    return before


@contextmanager
def during(stage: str, *arguments: object) -> Iterator[None]:
    """Context manager or decorator: while its body runs, `stage` is the recorded stage.

    The watchers get `arguments` as the arguments of the stage.
    """
    before = begin(stage)
    try:
        yield
    finally:
        end(stage, before, arguments)


def begin(stage: str) -> str:
    """Notifies the watchers that a stage starts, and calls `enter`. Returns the name of the interrupted stage."""
    for watcher in _watchers:
        watcher.entered(stage)
    return enter(stage)


def end(stage: str, interrupted: str, arguments: Sequence[object] = (), result: object = None) -> None:
    """Records the interrupted stage again, and notifies the watchers that `stage` has ended."""
    enter(interrupted)
    for watcher in _watchers:
        watcher.left(stage, arguments, result)


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Context manager: while its body runs, `watcher` is notified of all stages."""
    global _watchers
    before, _watchers = _watchers, (*_watchers, watcher)
    try:
        yield
    finally:
        _watchers = before


def report(text: str) -> None:
    """Sends a message about the progress within the running stage to all listeners."""
    for listener in _listeners:
        listener(text)


def has_listeners() -> bool:
    """Whether there are listeners. If there are none, stages need not measure their progress."""
    return bool(_listeners)


@contextmanager
def listening(listener: Callable[[str], None]) -> Iterator[None]:
    """Context manager: while its body runs, `report` also calls `listener`, in any thread that sends a message."""
    global _listeners
    before, _listeners = _listeners, (*_listeners, listener)
    try:
        yield
    finally:
        _listeners = before


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Context manager: in the worker of a driver, SIGALRM ends the process if the body takes longer than `seconds`.

    In any other process, there is no limit.
    """
    if _source is None:
        yield
        return
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


files: set[str] = set()
"""All files that `work_on` has recorded."""


def work_on(file: str) -> None:
    """Records the file on which the next stages work. "-" stands for standard input."""
    files.add(file)
    size = _FILE.stop - _FILE.start
    _page[_FILE] = os.fsencode(file)[:size].ljust(size, b"\0")


def join() -> None:
    """Records that this process depends on other processes from now on: it may end because one of them has died."""
    _page[_JOINED] = 1


def leave() -> None:
    """Records that this process does not depend on other processes any more."""
    _page[_JOINED] = 0


def has_joined() -> bool:
    """Whether the process depends on other processes."""
    return bool(_page[_JOINED])


def keep(contents: bytes) -> None:
    """Saves the contents of a pipe for the driver, because the driver cannot read the pipe again after a crash.

    Does nothing in a process without a driver, or if the contents are too large.
    """
    if _source is not None and len(contents) <= _LARGEST_SOURCE:
        os.truncate(_source, 0)
        os.pwrite(_source, contents, 0)


def recorded() -> tuple[str, str]:
    """The stage and the file that were recorded last."""
    return _text(_page[_STAGE]), _text(_page[_FILE])


def _text(field: bytes | bytearray) -> str:
    return os.fsdecode(bytes(field).rstrip(b"\0"))
