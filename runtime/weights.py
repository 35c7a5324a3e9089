"""Files of named arrays, such as a model's weights: `.npz`, `.safetensors`, and IREE's parameter archives, `.irpa`.

IREE's runtimes for C and Python map a parameter archive into memory. `.safetensors` files require the extra
`tiduc[safetensors]`. The arrays of a file are read in the order of the file.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from tiduc.dialect.errors import InputError, RequestError, TiducError
from tiduc.runtime.array_files import read_npz, write_npz
from tiduc.runtime.arrays import Array, refuse_masked
from tiduc.runtime.files import open_regular, written_whole
from tiduc.runtime.irpa import check_archive

Path = str | os.PathLike[str]

IDENTITY = "tiduc.model"
"""The key of the note that identifies the model, in a file with the state of a training step."""

SCOPE = "model"
"""The scope of the parameters that a module reads, as in `iree-run-module --parameters=model=FILE`."""


def read_weights(path: Path) -> dict[str, Array]:
    """Returns the arrays of a file, by name. The suffix of the file determines the format.

    Raises InputError if the file cannot be read, is damaged, or holds anything but arrays, and RequestError for an
    unknown suffix.
    """
    read = _by_suffix(path)[0]
    with _reading(path):
        return read(os.fspath(path))


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """In a block that reads a file of arrays, turns the errors of libraries into `InputError`."""
    try:
        with open_regular(path):  # the libraries would wait for a pipe, and give worse errors
            yield
    except TiducError:
        raise
    except MemoryError as error:
        raise InputError(f"too large: {_line(error)}", os.fspath(path)) from error
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror or error}", os.fspath(path)) from error
    except Exception as error:  # each library has its own errors for a damaged file
        raise InputError(f"not a file of arrays: {_line(error)}", os.fspath(path)) from error


def part_readers(path: Path) -> dict[str, Callable[[tuple[slice, ...]], Array]]:
    """Returns, for each array of a file, a function that takes slices and returns the part of the array at these
    slices.

    Reads only the requested parts of a `.safetensors` file, but all arrays of any other file at once. Raises the errors
    of `read_weights`.
    """
    if _by_suffix(path)[0] is not _read_safetensors:
        return {name: array.__getitem__ for name, array in read_weights(path).items()}
    with _reading(path):
        file = _safetensors("safetensors").safe_open(os.fspath(path), framework="numpy")
        return {name: partial(_part, file, name, os.fspath(path)) for name in file.offset_keys()}


def _part(file: Any, name: str, path: str, part: tuple[slice, ...]) -> Array:
    try:
        array: Array = file.get_slice(name)[part]
        return array
    except AttributeError:  # raised if NumPy lacks the element type
        return _tensor(file, name, path)[part]


def write_weights(path: Path, arrays: Mapping[str, Array], notes: Mapping[str, str] | None = None) -> None:
    """Writes arrays to a file under their names, atomically. The suffix of the file determines the format.

    `notes` are texts to store in a `.safetensors` file; other formats ignore them. Raises `TiducError` if the file
    cannot be written, or if the format lacks an element type.
    """
    write = _by_suffix(path)[1]
    noted = {"notes": dict(notes)} if notes and write is _write_safetensors else {}
    try:
        for name, x in arrays.items():
            refuse_masked(x, f"the array {name!r}")
        write(os.fspath(path), {name: np.asarray(x, order="C") for name, x in arrays.items()}, **noted)
    except TiducError:
        raise
    except Exception as error:  # for example, the library does not support an element type
        raise RequestError(f"cannot be written: {_line(error)}", os.fspath(path)) from error


def _safetensors(module: str) -> ModuleType:
    try:
        return import_module(module)
    except ImportError:
        raise TiducError(".safetensors files need a package: pip install 'tiduc[safetensors]'") from None


def _read_safetensors(path: str) -> dict[str, Array]:
    with _safetensors("safetensors").safe_open(path, framework="numpy") as file:
        return {name: _tensor(file, name, path) for name in file.offset_keys()}


def _tensor(file: Any, name: str, path: str) -> Array:
    try:
        array: Array = file.get_tensor(name)
        return array
    except AttributeError:  # raised if NumPy lacks the element type
        message = (
            f"the array {name!r} has the element type {file.get_slice(name).get_dtype()}, which NumPy lacks"
        )
        raise InputError(message, path) from None


def _write_safetensors(path: str, arrays: Mapping[str, Array], notes: dict[str, str] | None = None) -> None:
    package = _safetensors("safetensors.numpy")
    with written_whole(path) as file:
        package.save_file(arrays, file.name, notes)


def notes_in(path: Path) -> dict[str, str]:
    """Returns the notes in a `.safetensors` file. Returns an empty dictionary for a file of another format."""
    if _by_suffix(path)[1] is not _write_safetensors:
        return {}
    with _safetensors("safetensors").safe_open(os.fspath(path), framework="numpy") as file:
        return dict(file.metadata() or {})


def _read_irpa(path: str) -> dict[str, Array]:
    from iree import runtime  # this import is slow

    index = runtime.ParameterIndex()
    check_archive(path)
    index.load(path)
    return {name: runtime.parameter_index_entry_as_numpy_ndarray(entry) for name, entry in index.items()}


def _write_irpa(path: str, arrays: Mapping[str, Array]) -> None:
    from iree import runtime

    index = runtime.ParameterIndex()
    for name, x in arrays.items():
        runtime.parameter_index_add_numpy_ndarray(index, name, x)
    with written_whole(path) as file:
        index.create_archive_file(file.name)


FORMATS: dict[str, tuple[Callable[[str], dict[str, Array]], Callable[..., None]]] = {
    ".npz": (read_npz, write_npz),
    ".safetensors": (_read_safetensors, _write_safetensors),
    ".irpa": (_read_irpa, _write_irpa),
}
"""Maps the suffix of a file to the functions that read and write such files."""


def _by_suffix(path: Path) -> tuple[Callable[[str], dict[str, Array]], Callable[..., None]]:
    suffix = os.path.splitext(os.fspath(path))[1].lower()
    if suffix not in FORMATS:
        raise RequestError(
            f"unknown kind of file: weights are stored in {', '.join(FORMATS)} files", os.fspath(path)
        )
    return FORMATS[suffix]


def _line(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
