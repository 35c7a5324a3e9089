"""Files that appear whole or not at all; and files that are read within bounds."""

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import BinaryIO

from tiduc.dialect.errors import TiducError
from tiduc.dialect.reading import read_whole

_waiting: ContextVar[dict[str, str] | None] = ContextVar("waiting", default=None)
"""In a block of `written_together`: the files written so far, under other names, and what each is to be called."""


@contextmanager
def written_together() -> Iterator[None]:
    """What `written_whole` writes in the block takes its names when the block ends; if it raises, there is nothing.

    For a command that gives several files, which are of use together only. What is no regular file is written at
    once: do that last. Raises TiducError, located at the file, where the system refuses to rename one.
    """
    waiting: dict[str, str] = {}
    token = _waiting.set(waiting)
    try:
        yield
        for unfinished, target in list(waiting.items()):
            try:
                os.replace(unfinished, target)
            except OSError as error:
                raise TiducError(f"cannot write: {error.strerror or error}", target) from error
            del waiting[unfinished]
    finally:
        _waiting.reset(token)
        for unfinished in waiting:
            with suppress(OSError):
                os.unlink(unfinished)


@contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A binary file that takes the name `path` when the block ends, and leaves nothing if the block raises.

    It is written beside `path` under another name and then renamed, so that a reader sees the old file or the
    new one; where several belong together, see `written_together`.  What is no regular file (a pipe, a
    terminal, `/dev/null`) is written directly.
    Raises TiducError, located at `path`, where the system refuses.
    """
    if os.fspath(path).endswith(("/", os.sep)):
        raise TiducError("cannot write: the name is one of a folder", os.fspath(path))
    # A symbolic link stays a link: what it leads to is replaced.
    target = os.path.realpath(path)
    try:
        if os.path.exists(target) and not os.path.isfile(target):
            with open(target, "wb") as file:
                yield file
            return
        waiting = _waiting.get()
        if waiting is not None and target in waiting.values():
            raise TiducError("two files are to have this name", os.fspath(path))
        folder, name = os.path.split(target)
        unfinished = os.path.join(folder, f".{name[:200]}.{secrets.token_hex(4)}.tmp")
        try:
            # Not tempfile: its files are private to the user, and this one is to have the usual permissions.
            with open(unfinished, "xb") as file:
                yield file
            if waiting is None:
                os.replace(unfinished, target)
            else:
                waiting[unfinished] = target
        except BaseException:
            with suppress(OSError):
                os.unlink(unfinished)
            raise
    except OSError as error:
        raise TiducError(f"cannot write: {error.strerror or error}", os.fspath(path)) from error


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """All bytes of a file, bounded as in `read_whole`; `TiducError`, located at `path`, where the system refuses."""
    try:
        return read_whole(path)
    except OSError as error:
        raise TiducError(f"cannot read: {error.strerror or error}", os.fspath(path)) from error


def read_regular(path: str | os.PathLike[str], limit: int) -> bytes:
    """All bytes of a regular file, which no link leads to. Raises OSError for another file, or a larger one."""
    with open_regular(path, os.O_NOFOLLOW if hasattr(os, "O_NOFOLLOW") else 0) as file:
        contents = file.read(limit + 1)
    if len(contents) > limit:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    return contents


def open_regular(path: str | os.PathLike[str], flags: int = 0) -> BinaryIO:
    """A regular file, opened for reading. Raises OSError for a folder, a pipe or a device, without waiting for one."""

    def opener(name: str, mode: int) -> int:
        # Otherwise a pipe would wait here for someone to write.
        return os.open(name, mode | flags | getattr(os, "O_NONBLOCK", 0))

    file = open(path, "rb", opener=opener)
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "not a regular file")
    return file
