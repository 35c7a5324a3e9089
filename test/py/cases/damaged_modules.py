"""Changes bytes in compiled modules, and updates the checksums."""

import io
import struct
import zipfile
import zlib
from collections.abc import Iterator

import numpy as np

from tiduc.dialect.errors import TiducError
from tiduc.runtime.run import Module


def parts(vmfb: bytes) -> Iterator[tuple[zipfile.ZipInfo, int]]:
    """Yields the parts of a module, each with the position of its first byte."""
    with zipfile.ZipFile(io.BytesIO(vmfb)) as archive:
        for part in archive.infolist():
            name, extra = struct.unpack_from("<2H", vmfb, part.header_offset + 26)
            yield part, part.header_offset + 30 + name + extra


def rewritten(vmfb: bytes, at: int, new: bytes) -> bytes:
    """Returns the module with the bytes `new` at a position inside a part, and with valid checksums."""
    changed = bytearray(vmfb)
    for part, start in parts(vmfb):
        if start <= at and at + len(new) <= start + part.file_size:
            changed[at : at + len(new)] = new
            checksum = zlib.crc32(changed[start : start + part.file_size]).to_bytes(4, "little")
            listed = vmfb.rindex(part.CRC.to_bytes(4, "little"))  # in the directory, which follows all parts
            for place in (part.header_offset + 14, listed):
                changed[place : place + 4] = checksum
            return bytes(changed)
    raise ValueError(f"no part of the module has byte {at}")


def without_code(vmfb: bytes) -> bytes:
    """Returns the module with zeros in place of machine code.

    Machine code is in the executable segments of the module's 64-bit ELF files.
    """
    for part, start in parts(vmfb):
        if vmfb[start : start + 4] == b"\x7fELF":
            (table,) = struct.unpack_from("<Q", vmfb, start + 32)
            size, count = struct.unpack_from("<2H", vmfb, start + 54)
            for i in range(count):
                kind, flags, offset, _, _, length = struct.unpack_from(
                    "<2I4Q", vmfb, start + table + i * size
                )
                if kind == 1 and flags & 1:
                    vmfb = rewritten(vmfb, start + offset, bytes(min(length, part.file_size - offset)))
    return vmfb


def outcome(vmfb: bytes) -> str:
    """Loads the module and calls its functions with zeros.

    Returns "error" if tiduc raises an error, and else "answer". Exceptions that are not from tiduc are not caught.
    """
    try:
        with Module(vmfb) as module:
            for function in module.values():
                types = [value.type for value in function.signature.inputs]
                function(*[np.zeros([2 if n is None else n for n in t.shape], t.dtype) for t in types])
    except TiducError:
        return "error"
    return "answer"
