"""Reads whole files, but neither a device nor a pipe that gives bytes without end."""

import errno
import io
import os
import stat
from contextlib import suppress
from typing import BinaryIO

_DEVICE = 2**26
"""Bytes that a terminal or another device, such as /dev/zero, may give."""
_PIPE = 2**31
"""Bytes that a pipe may give."""


def read_whole(path: str | os.PathLike[str]) -> bytes:
    """All bytes of a file. Raises OSError where the system refuses, or where a device or a pipe gives too many."""
    with open(path, "rb") as file:
        return read_stream(file)


def read_stream(file: BinaryIO) -> bytes:
    """All bytes of an open file, as `read_whole` reads them."""
    mode = stat.S_IFIFO
    with suppress(OSError, io.UnsupportedOperation):  # a stream in memory has no descriptor
        mode = os.fstat(file.fileno()).st_mode
    if stat.S_ISREG(mode):
        return file.read()
    most = _DEVICE if stat.S_ISCHR(mode) else _PIPE
    contents = file.read(most + 1)
    if len(contents) > most:
        raise OSError(errno.EFBIG, f"not a regular file, and larger than {most // 2**20} MiB")
    return contents
