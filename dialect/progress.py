"""The stage that runs and the file it works on, recorded where the driver reads them after this process has died.

The command line's driver shares a page of memory with its worker before it starts the worker (see tiduc/driver.py).
Elsewhere the record stays in this process, and nobody reads it.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from mmap import mmap

SIZE = 8192
_STAGE = slice(0, 64)
_FILE = slice(64, SIZE)
_KEPT = 2**26  # bytes of a source that are kept for the driver

_page: mmap | bytearray = bytearray(SIZE)
_source: int | None = None  # a descriptor


def share(page: mmap, source: int) -> None:
    """From now on, records into a page of shared memory, and keeps sources that can be read once in a file."""
    global _page, _source
    _page, _source = page, source


def enter(stage: str) -> str:
    """Records that a stage starts; the stage that it interrupts, to be recorded again after it."""
    before = _text(_page[_STAGE])
    _page[_STAGE] = stage.encode()[:64].ljust(64, b"\0")
    return before


@contextmanager
def during(stage: str) -> Iterator[None]:
    """Records a stage for the block, or for calls of the function that this decorates."""
    before = enter(stage)
    try:
        yield
    finally:
        enter(before)


def work_on(file: str) -> None:
    """Records the file that the stages work on; "-" is standard input."""
    size = _FILE.stop - _FILE.start
    _page[_FILE] = os.fsencode(file)[:size].ljust(size, b"\0")


def keep(contents: bytes) -> None:
    """Keeps what was read from a pipe, which the driver cannot read again."""
    if _source is not None and len(contents) <= _KEPT:
        os.truncate(_source, 0)
        os.pwrite(_source, contents, 0)


def recorded() -> tuple[str, str]:
    """The stage, and the file, that were recorded last."""
    return _text(_page[_STAGE]), _text(_page[_FILE])


def _text(field: bytes | bytearray) -> str:
    return os.fsdecode(bytes(field).rstrip(b"\0"))
