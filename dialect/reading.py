"""Reads whole files. Devices and pipes, whose data may never end, are read up to a limit."""

import errno
import io
import os
import stat
from contextlib import suppress
from typing import BinaryIO

_DEVICE = 2**26
"""The largest number of bytes that are read from a terminal or another device, such as /dev/zero."""
_PIPE = 2**31
"""The largest number of bytes that are read from a pipe."""


def read_whole(path: str | os.PathLike[str]) -> bytes:
    """All bytes of a file. Raises `OSError` if the file cannot be read, or if a device or pipe exceeds the limit."""
    with open(path, "rb") as file:
        return read_stream(file)


def read_stream(file: BinaryIO) -> bytes:
    """All bytes of an open file; limits and errors are as for `read_whole`."""
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
