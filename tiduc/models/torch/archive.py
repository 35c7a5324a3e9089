"""Reads the parts of PyTorch's `.pt2` archives. Checks the sizes of all parts before it reads any.

    model.pt2    ->    {"models/model.json": ..., "data/weights/weight_0": ..., ...}

A `.pt2` file is a zip archive whose parts are stored without compression, in one folder. `torch.export.save` writes
only such archives. The reader therefore refuses an archive if parts are compressed, if the names of two parts differ
only in case, or if the parts have more bytes than the file. The reader returns the bytes of parts without interpreting
them, and does not need PyTorch.
"""

import io
import os
import re
import stat
import struct
import zipfile
from collections.abc import Mapping
from typing import Any, BinaryIO

from tiduc.dialect.errors import TiducError
from tiduc.runtime.process import memory

MODEL = "models/model.json"
WEIGHTS, CONSTANTS = "data/weights/", "data/constants/"
CONFIGS = {
    WEIGHTS: f"{WEIGHTS}model_weights_config.json",
    CONSTANTS: f"{CONSTANTS}model_constants_config.json",
}
"""Maps each folder to the name of the part that lists the names and types of the folder's arrays."""
INNER = (f"{WEIGHTS}model.pt", f"{CONSTANTS}model.pt")
"""The parts in which PyTorch 2.8 saves all arrays of a folder. Each part is an archive, written by `torch.save`."""
PICKLED = {WEIGHTS: f"{INNER[0]}/data.pkl", CONSTANTS: f"{INNER[1]}/data.pkl"}

MOST_PARTS = 100_000
MOST_JSON = 256 * 2**20
"""The largest size in bytes of a JSON part."""
_OLD = (
    "not a program written by torch.export.save of PyTorch 2.8 or later; load the file with PyTorch, and save the "
    "program again"
)
_HEADER = 30
"""The size in bytes of the header of a part, without the part's name."""
_NAME = re.compile(r"[^/\\\x00-\x1f\x7f]+(?:/[^/\\\x00-\x1f\x7f]+)*")
_DAMAGED = (
    *(
        zipfile.BadZipFile,
        EOFError,
        ValueError,
        NotImplementedError,
        OverflowError,
        RuntimeError,
        struct.error,
    ),
    *(IndexError, KeyError),
)
"""The exceptions that `zipfile` raises for damaged archives."""
_ENDS = {"little", ""}


class Refused(TiducError):
    """Raised if an archive is not acceptable. The message has the reason, but not the path of the file."""


def read_parts(path: str) -> dict[str, bytearray]:
    """Maps the names of the parts of an archive to their bytes. Leaves out parts that an import does not need.

    Raises `TiducError` if the archive is not acceptable.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise TiducError("cannot read: not a regular file", path)
        size = os.fstat(file.fileno()).st_size
        if size > memory() * 2**20:
            raise TiducError("the file is larger than the memory of this machine", path)
        try:
            return _parts(file, size)
        except TiducError as error:
            error.location = path
            raise
        except _DAMAGED as error:
            raise TiducError(f"not a program written by torch.export.save: {error}", path) from None


def _parts(file: BinaryIO, size: int) -> dict[str, bytearray]:
    with zipfile.ZipFile(file) as archive:
        members = [each for each in archive.infolist() if not each.filename.endswith("/")]
        names = _names(members, size)
        _check_kind(archive, names)
        kept = {name: member for name, member in names.items() if _is_needed(name)}
        for name, member in kept.items():
            if name.endswith(".json") and member.file_size > MOST_JSON:
                raise Refused(f"{name} has more than {MOST_JSON >> 20} MiB")
        parts = {name: _contents(archive, member) for name, member in kept.items()}
    for name in INNER:
        if name in parts:
            parts |= _inner(name, parts.pop(name))
    return parts


def _inner(name: str, written: bytearray) -> dict[str, bytearray]:
    """The parts of an inner archive, which is the part `name` of the outer archive. Their names begin with `name`."""
    with zipfile.ZipFile(io.BytesIO(written)) as archive:
        names = _names(archive.infolist(), len(written))
        _check_order(archive, names)
        kept = {key: member for key, member in names.items() if key == "data.pkl" or key.startswith("data/")}
        if "data.pkl" not in kept or kept["data.pkl"].file_size > MOST_JSON:
            raise Refused(f"{name} is not an archive of torch.save")
        return {f"{name}/{key}": _contents(archive, member) for key, member in kept.items()}


def _names(members: list[zipfile.ZipInfo], size: int) -> dict[str, zipfile.ZipInfo]:
    """Maps the names of members, without the name of the folder that contains all of them, to the members.

    Raises `Refused` if the members are not acceptable. `size` is the number of bytes of the archive.
    """
    if len(members) > MOST_PARTS:
        raise Refused(f"the archive has more than {MOST_PARTS:,} parts")
    if any(each.flag_bits & 1 or each.compress_type != zipfile.ZIP_STORED for each in members):
        raise Refused(
            "a part of the archive is compressed or encrypted; torch.export.save writes no such parts"
        )
    if any(each.file_size != each.compress_size for each in members) or size < sum(
        each.file_size + _HEADER + len(each.filename) for each in members
    ):
        raise Refused("the parts of the archive have more bytes than the archive")
    if any(each.filename.startswith("serialized_exported_program") for each in members):
        raise Refused(_OLD)
    folders = {each.filename.partition("/")[0] for each in members}
    if len(folders) != 1:
        raise Refused("the parts of the archive are not in one folder")
    (folder,) = folders
    names = {each.filename.removeprefix(f"{folder}/"): each for each in members}
    odd = [name for name in names if not _NAME.fullmatch(name) or ".." in name.split("/")]
    if odd:
        raise Refused(f"a part has a name that is not allowed: {odd[0][:80]!r}")
    if len({name.casefold() for name in names}) < len(members):
        raise Refused("two parts of the archive have the same name, or names that differ only in case")
    return names


def _check_kind(archive: zipfile.ZipFile, names: Mapping[str, zipfile.ZipInfo]) -> None:
    """Raises `Refused` unless the archive holds one program of PyTorch 2.8 or later, without machine code."""
    if any(name.startswith("data/aotinductor/") for name in names):
        raise Refused("the file holds machine code, which is not supported")
    if _small(archive, names, "archive_format") != b"pt2":
        raise Refused(_OLD)
    models = [name for name in names if name.startswith("models/")]
    if models != [MODEL]:
        raise Refused(
            f"the file must contain one program, {MODEL}, but has {', '.join(models[:5]) or 'none'}"
        )
    _check_order(archive, names)


def _check_order(archive: zipfile.ZipFile, names: Mapping[str, zipfile.ZipInfo]) -> None:
    if _small(archive, names, "byteorder").decode("latin-1") not in _ENDS:
        raise Refused("the arrays are not little-endian")


def _small(archive: zipfile.ZipFile, names: Mapping[str, zipfile.ZipInfo], name: str) -> bytes:
    """The contents of a part of at most 64 bytes. Returns b"" if the part does not exist or is larger."""
    member = names.get(name)
    return b"" if member is None or member.file_size > 64 else bytes(_contents(archive, member))


def _is_needed(name: str) -> bool:
    """Whether a part is the program, an array, or a list of arrays. All other parts are not read."""
    return name == MODEL or name.startswith((WEIGHTS, CONSTANTS))


def _contents(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytearray:
    contents = bytearray(member.file_size)
    view: Any = memoryview(contents)
    with archive.open(member) as opened:
        part: Any = opened
        while len(view) and (count := part.readinto(view)):
            view = view[count:]
        if len(view) or part.read(1):
            raise Refused("a part of the archive is shorter than the archive says")
    return contents
