"""Files that appear whole or not at all."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from tiduc.dialect.errors import TiducError


@contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A binary file that takes the name `path` when the block ends, and leaves nothing if the block raises.

    It is written beside `path` under another name and then renamed, so that a reader sees the old file or the
    new one.  What is no regular file (a pipe, a terminal, `/dev/null`) is written directly.
    Raises TiducError, located at `path`, where the system refuses.
    """
    # A symbolic link stays a link: what it leads to is replaced.
    target = os.path.realpath(path)
    try:
        if os.path.exists(target) and not os.path.isfile(target):
            with open(target, "wb") as file:
                yield file
            return
        folder, name = os.path.split(target)
        unfinished = os.path.join(folder, f".{name[:200]}.{secrets.token_hex(4)}.tmp")
        try:
            # Not tempfile: its files are private to the user, and this one is to have the usual permissions.
            with open(unfinished, "xb") as file:
                yield file
            os.replace(unfinished, target)
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
