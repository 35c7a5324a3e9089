"""Mutates bytes of files. In zip archives, members can be mutated so that all checksums are valid."""

import io
import re
import struct
import warnings
import zipfile
import zlib
from collections.abc import Sequence
from random import Random

_NUMBERS = [0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 2**63 - 1, 2**64 - 1]


def mutated(data: bytes, draw: Random, others: Sequence[bytes], most: int = 4) -> bytes:
    """Returns the bytes after one to `most` random mutations. A mutation may insert a part of a file in `others`."""
    mutant = bytearray(data)
    for _ in range(draw.randint(1, most)):
        _mutate(mutant, draw, others)
    return bytes(mutant)


def _mutate(data: bytearray, draw: Random, others: Sequence[bytes]) -> None:
    i = draw.randint(0, max(0, len(data) - 1))
    size = draw.choice([1, 2, 4, 8, 16, draw.randint(1, 64)])
    how = draw.randrange(9)
    if how <= 1 and data:
        data[i] ^= 1 << draw.randrange(8)
    elif how == 2 and data:
        data[i] = draw.randrange(256)
    elif how == 3:
        width = draw.choice([1, 2, 4, 8])
        number = draw.choice(_NUMBERS) % 2 ** (8 * width)
        data[i : i + width] = number.to_bytes(width, draw.choice(["little", "big"]))
    elif how == 4:
        del data[i : i + size]
    elif how == 5:
        data[i:i] = draw.randbytes(size)
    elif how == 6:
        data[i:i] = data[draw.randint(0, len(data)) :][:size]
    elif how == 7:
        other = draw.choice(others)
        data[i : i + size] = other[draw.randint(0, len(other)) :][:size]
    elif draw.randrange(4) == 0:
        del data[i:]
    else:
        data[i : i + size] = bytes(size)


def in_archive(data: bytes, draw: Random, others: Sequence[bytes]) -> bytes:
    """Returns a copy of a zip archive in which one member is mutated, removed or renamed.

    If `data` is not a zip archive, mutates bytes anywhere.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [(info, archive.read(info)) for info in archive.infolist()]
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        return mutated(data, draw, others)
    at, how = draw.randrange(len(members)), draw.randrange(8)
    out = io.BytesIO()
    with (
        zipfile.ZipFile(out, "w") as archive,
        warnings.catch_warnings(action="ignore"),
    ):  # zipfile warns about duplicate names
        for i, (info, contents) in enumerate(members):
            if i == at and how == 0:
                continue
            if i == at and how == 1:
                info.filename = draw.choice(["../x.npy", "/x", "", "x" * 300, "a\0b", members[0][0].filename])
            if i == at and how > 1:
                contents = header(contents, draw) if how < 4 else mutated(contents, draw, others)
            archive.writestr(info, contents)
    return out.getvalue()


def in_stored_archive(data: bytes, draw: Random) -> bytes:
    """Returns a zip archive, such as a module of IREE, with changed bytes in one member and an updated checksum."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        name = draw.choice(archive.namelist())
        contents = bytearray(archive.read(name))
    for _ in range(draw.randint(1, 4)):
        i, size = draw.randrange(len(contents)), draw.choice([1, 2, 4, 8])
        flipped = bytes([contents[i] ^ 1 << draw.randrange(8)])
        by = draw.choice([bytes(size), b"\xff" * size, draw.randbytes(size), flipped])
        contents[i : i + len(by)] = by[: len(contents) - i]
    return with_contents(data, name, bytes(contents))


def with_contents(data: bytes, name: str, contents: bytes) -> bytes:
    """Replaces the contents of the uncompressed member `name` of a zip archive, and updates its checksum.

    The new contents must have the length of the old ones.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        member = archive.getinfo(name)
    lengths = struct.unpack_from("<HH", data, member.header_offset + 26)
    start = member.header_offset + 30 + sum(lengths)
    archive = data[:start] + contents + data[start + len(contents) :]
    before, after = (struct.pack("<I", crc) for crc in (member.CRC, zlib.crc32(contents)))
    return archive.replace(before, after)


def header(data: bytes, draw: Random) -> bytes:
    """Returns a copy of a NumPy file with a random element type, order or shape in its header.

    If `data` is not a NumPy file, mutates bytes anywhere.
    """
    if not data.startswith(b"\x93NUMPY"):
        return mutated(data, draw, [data])
    text = data[10:128]
    descr = draw.choice(
        ["<f4", "|O", "<U9", "<M8[s]", "|V8", "<c16", ">f8", "|b1", "<f2", "[('a','<f4')]", "zz"]
    )
    shape = draw.choice(
        ["()", "(0,)", "(-1,)", "(99999999999999,)", "(2, 3)", "(1.5,)", "3", "((1,),)", "(2**40,)"]
    )
    changed = draw.choice(
        [
            re.sub(rb"'descr': [^,]*", f"'descr': '{descr}'".encode(), text),
            re.sub(rb"'shape': \([^)]*\)", f"'shape': {shape}".encode(), text),
            re.sub(rb"False", draw.choice([b"True", b"None", b"__import__('os')"]), text),
        ]
    )
    return data[:10] + changed.ljust(118)[:118] + data[128:]
