"""Files that appear whole or not at all."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import BinaryIO

from tiduc.dialect.errors import TiducError

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
    """All bytes of a file. Raises TiducError, located at `path`, where the system refuses."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise TiducError(f"cannot read: {error.strerror or error}", os.fspath(path)) from error
