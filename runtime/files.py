"""Atomic writes of files, and bounded reads."""

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
"""In a block of `written_together`: maps the temporary names of the files written so far to their final names."""


@contextmanager
def written_together() -> Iterator[None]:
    """Files that `written_whole` writes in the block get their final names when the block ends.

    If the block raises an error, no file is renamed.

    Use this for a command whose output files are useful only together. Pipes and devices are written immediately, so
    write them last. Raises `TiducError`, located at the file, if a file cannot be renamed.
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
    """A binary file that gets the name `path` when the block ends, and is removed if the block raises an error.

    The file is written beside `path` under a temporary name and then renamed, so that a reader sees either the old file
    or the complete new file. A pipe, a terminal or a device such as `/dev/null` is written directly. For several files
    that belong together, see `written_together`. Raises `TiducError`, located at `path`, if the file cannot be written.
    """
    if os.fspath(path).endswith(("/", os.sep)):
        raise TiducError("cannot write: the name is that of a folder", os.fspath(path))
    # A symbolic link is kept; its target is replaced.
    target = os.path.realpath(path)
    try:
        if os.path.exists(target) and not os.path.isfile(target):
            with open(target, "wb") as file:
                yield file
            return
        waiting = _waiting.get()
        if waiting is not None and target in waiting.values():
            raise TiducError("two outputs have this name", os.fspath(path))
        folder, name = os.path.split(target)
        unfinished = os.path.join(folder, f".{name[:200]}.{secrets.token_hex(4)}.tmp")
        try:
            # The files of tempfile are private to the user, but this file needs the usual permissions.
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
    """All bytes of a file, with the limits of `read_whole`.

    Raises `TiducError`, located at `path`, if the file cannot be read.
    """
    try:
        return read_whole(path)
    except OSError as error:
        raise TiducError(f"cannot read: {error.strerror or error}", os.fspath(path)) from error


def open_regular(path: str | os.PathLike[str], flags: int = 0, folder: int | None = None) -> BinaryIO:
    """Opens a regular file for reading. Raises `OSError` for a folder, a pipe or a device, without blocking.

    `folder` is the descriptor of the folder that contains a relative path; the default is the current folder.
    """

    def opener(name: str, mode: int) -> int:
        # Without O_NONBLOCK, opening a pipe would wait for a writer.
        return os.open(name, mode | flags | getattr(os, "O_NONBLOCK", 0), dir_fd=folder)

    file = open(path, "rb", opener=opener)
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "not a regular file")
    return file
