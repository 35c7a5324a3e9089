"""Writes files atomically, and reads files within limits."""

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
"""Maps the temporary name of each file that `written_whole` has written to its final name.

It is None outside the body of a `with written_together()` statement.
"""


@contextmanager
def written_together() -> Iterator[None]:
    """A context in which files that `written_whole` writes get their final names only when the context ends.

    If the body of the `with` statement raises an error, the files are removed. Use this context for a command whose
    output files are useful only together. Pipes and devices are written immediately, so write them last. Raises
    `TiducError`, located at the file, if a file cannot be renamed.
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
    """A context with a binary file to write. The file gets the name `path` when the context ends.

    If the body of the `with` statement raises an error, the file is removed. The file is written beside `path` under a
    temporary name and then renamed, so that a reader sees either the old file or the complete new file. A pipe, a
    terminal or a device such as `/dev/null` is written directly. For several files that belong together, see
    `written_together`. Raises `TiducError`, located at `path`, if the file cannot be written.
    """
    if os.fspath(path).endswith(("/", os.sep)):
        raise TiducError("cannot write: the name is that of a folder", os.fspath(path))
    # If `path` is a symbolic link, the file that it points to is replaced, and the link stays.
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
            # `tempfile` is not used, because its files are private to the user. This file gets the usual permissions.
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
    """Returns all bytes of a file. The limits of `read_whole` apply.

    Raises `TiducError`, located at `path`, if the file cannot be read.
    """
    try:
        return read_whole(path)
    except OSError as error:
        raise TiducError(f"cannot read: {error.strerror or error}", os.fspath(path)) from error


def open_regular(path: str | os.PathLike[str], flags: int = 0, folder: int | None = None) -> BinaryIO:
    """Opens a regular file for reading. Raises `OSError` for a folder, a pipe or a device, without waiting.

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
