"""Checks that all ranges in an IREE parameter archive (`.irpa`) are inside the file.

    header    "IRPA", version, header's size, next header, flags, count and range of entries, ranges of texts and data
    entry     its size, kind, flags, ranges of its name and its metadata (in the texts); for kind 2, also
              its alignment and its range (in the data)

IREE's reader does not check whether the sum of an offset and a length overflows, and would then read outside the file.
"""

import os
import struct
from typing import BinaryIO

from tiduc.runtime.files import open_regular

_HEADER = struct.Struct("<4sHHQQQQ6Q")
_ENTRY = struct.Struct("<QIQ4Q")
_RANGE = struct.Struct("<8x2Q")
_IN_FILE = 2


def check_archive(path: str | os.PathLike[str]) -> None:
    """Raises `ValueError` if a range in an archive is outside the file. Ignores files of other formats.

    Raises `OSError` if the file cannot be read or is not regular.
    """
    with open_regular(path) as file:
        header, size = file.read(_HEADER.size), os.fstat(file.fileno()).st_size
        if header.startswith(b"IRPA"):
            _check(header, file, size)


def _check(header: bytes, file: BinaryIO, size: int) -> None:
    if len(header) < _HEADER.size:
        raise ValueError("the header is truncated")
    _, _, _, _, following, _, count, *segments = _HEADER.unpack(header)
    if following:
        raise ValueError("an archive with several headers is not supported")
    entries, texts, data = (
        _inside((0, size), segments[i], segments[i + 1], "a segment") for i in range(0, 6, 2)
    )
    file.seek(entries[0])
    table, at = file.read(entries[1]), 0
    for i in range(count):
        if at + _ENTRY.size > len(table):
            raise ValueError(f"entry {i} of {count} is truncated")
        length, kind, _, *ranges = _ENTRY.unpack_from(table, at)
        _inside((at, len(table) - at), 0, max(length, _ENTRY.size), f"entry {i}")
        for j in (0, 2):
            _inside(texts, ranges[j], ranges[j + 1], f"the name or the metadata of entry {i}")
        if kind == _IN_FILE:
            _inside((at, length), _ENTRY.size, _RANGE.size, f"entry {i}")
            offset, held = _RANGE.unpack_from(table, at + _ENTRY.size)
            _inside(data, offset, held, f"the data of entry {i}")
        # IREE aligns each entry except the last to 16 bytes.
        at += -(-length // 16) * 16


def _inside(outer: tuple[int, int], offset: int, length: int, name: str) -> tuple[int, int]:
    """Returns the range, as offset and length in the file, of `length` bytes at `offset` within the range `outer`.

    Raises `ValueError` if `offset` + `length` exceeds the length of `outer`. `name` describes the range in the message.
    """
    if offset + length > outer[1]:
        raise ValueError(f"{name} ends after the section that contains it")
    return outer[0] + offset, length
