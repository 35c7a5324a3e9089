"""Reads and writes arrays as files: `.npy` files, which hold one array, and `.npz` files, which hold arrays by name."""

import os
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np
from numpy.lib.npyio import NpzFile

from tiduc.dialect.errors import InputError
from tiduc.runtime.files import open_regular, written_whole
from tiduc.runtime.process import Limits
from tiduc.runtime.signature import TensorType

Array = np.ndarray[Any, np.dtype[Any]]

ROOM = Limits.mebibytes * 2**20
"""The limit on the total size in bytes of the arrays of a run.

It is half of the memory of this machine, because a device gets a copy of each array.
"""


def check_room(size: int, room: int) -> None:
    """Raises ValueError if `size` exceeds `room`, the number of bytes that are left for arrays."""
    if size > room:
        raise ValueError(f"too large: {size} bytes, but the other arrays leave only {room} bytes")


def write_npz(path: str | os.PathLike[str], arrays: Mapping[str, Array]) -> None:
    """Writes the arrays to an `.npz` file under their names, atomically.

    If NumPy's format lacks the element type of an array (bf16, f8), the array is written as raw bytes. `parse_inputs`
    converts these bytes to the type in the signature. Raises `TiducError` if the file cannot be written.
    """
    # np.savez takes the names as keyword arguments, and therefore fails for some names, such as `file`.
    with written_whole(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            array = np.asanyarray(array)
            # For dtypes that other packages define, NumPy would write type names that it cannot read.
            if array.dtype.isbuiltin == 2:
                array = array.view(f"V{array.dtype.itemsize}")
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)


def read_arrays(name: str, room: int, mapped: bool = False) -> Iterator[Array]:
    """Yields the arrays of `file.npy`, `file.npz` or `file.npz:KEY`, in the order of the file.

    In KEY, `*` matches any text.
    """
    path, key = name, None
    if not os.path.exists(name) and ".npz:" in name:
        path, _, key = name.rpartition(":")
    with _numbers(path, room, mapped) as loaded:
        if isinstance(loaded, np.ndarray):
            yield loaded
            return
        keys = loaded.files if key is None else _matching(key, loaded.files)
        if key is not None and not keys:
            raise InputError(f"no array {key!r} in the file; it has: {', '.join(loaded.files)}", path)
        yield from _members(loaded, keys, room)


@contextmanager
def _numbers(path: str, room: int, mapped: bool = False) -> Iterator[Any]:
    """A context with the file as `np.load` opens it. With `mapped`, a `.npy` file is mapped into memory.

    Raises `InputError` for a damaged file or another format, also if the body of the `with` statement discovers the
    damage.
    """
    try:
        with open_regular(path) as file:
            loaded = np.load(  # pickles are not allowed, because they can run arbitrary code
                path if mapped else _bounded(file, room), "r" if mapped else None, allow_pickle=False
            )
            yield loaded
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror or error}", path) from error
    except InputError:
        raise
    except MemoryError as error:
        raise InputError(f"too large: {str(error) or 'out of memory'}", path) from error
    except Exception as error:  # for example, a SyntaxError, because NumPy parses headers as Python
        # NumPy takes a file of an unknown format for a pickle; its message would mislead.
        reason = "" if "pickle" in str(error) else f": {error}"
        raise InputError(f"not a .npy or .npz file of numbers{reason}", path) from error


def _bounded(file: BinaryIO, room: int) -> BinaryIO:
    """Returns `file`. Raises `ValueError` if the file is larger than `room` bytes, unless it is an archive.

    `_members` checks the sizes in archives.
    """
    if file.read(2) != b"PK":
        check_room(os.fstat(file.fileno()).st_size, room)
    file.seek(0)
    return file


def _members(archive: NpzFile, names: Sequence[str], room: int) -> Iterator[Array]:
    assert archive.zip is not None  # it is open
    for name in names:
        known = archive.zip.NameToInfo
        member = known.get(f"{name}.npy") or known[name]
        check_room(member.file_size, room)
        # With other compression methods, a few bytes could expand to any size, whatever the archive declares.
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"{name!r} is compressed in a way that NumPy does not write")
        array = archive[name]
        if not isinstance(array, np.ndarray):  # NumPy returns bytes for a member that is not a .npy file
            raise ValueError(f"the archive's member {name!r} is not an array")
        room -= array.nbytes
        yield array


def read_npz(path: str) -> dict[str, Array]:
    """Returns the arrays of an `.npz` file, by name.

    Raises InputError if the file cannot be read or has another format.
    """
    with _numbers(path, ROOM) as loaded:
        if isinstance(loaded, np.ndarray):
            raise InputError("the file holds one array without a name, not an .npz archive", path)
        return dict(zip(loaded.files, _members(loaded, loaded.files, ROOM), strict=True))


def _matching(pattern: str, keys: list[str]) -> list[str]:
    """Returns the key that equals the pattern or, if no key does, all keys that the pattern matches, in order."""
    if pattern in keys:
        return [pattern]
    expression = re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)
    return [key for key in keys if expression.fullmatch(key)]


def restored(array: Array, expected: TensorType | None) -> Array:
    """Converts raw bytes, as `write_npz` writes them, to the expected type. Returns any other array unchanged.

    Only arrays whose element type NumPy's format lacks (bf16, f8) are written as raw bytes.
    """
    dtype = expected.dtype if expected else None
    if dtype is None or array.dtype.kind != "V" or array.dtype.isbuiltin == 2:
        return array
    return array.view(dtype) if dtype.isbuiltin == 2 and array.dtype.itemsize == dtype.itemsize else array
