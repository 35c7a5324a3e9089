"""Reads and writes arrays as text and files: arguments and results of a run on the command line.

4xf32=1,2,3,4       2x2xf64=[[1,2],[3,4]]       4xf32=0 (all zero)      2xcomplex<f32>=1+2j,3
@x.npy              @all.npz (each array of it)             @all.npz:weights        x=1,2,3 (by name)
random              zeros               64x64xf32=random        1,2,3,4 (the type is the signature's)
"""

import math
import os
import re
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, BinaryIO

import numpy as np
from numpy.lib.npyio import NpzFile

from tiduc.dialect.errors import InputError
from tiduc.runtime.files import open_regular, written_whole
from tiduc.runtime.process import Limits
from tiduc.runtime.signature import DTYPES, SignatureValue, TensorType

Array = np.ndarray[Any, np.dtype[Any]]

_TOKEN = re.compile(r"\s*([\[\],]|[^\s\[\],]+)")
_SPELLS_NO_FINITE = re.compile("nan|inf", re.IGNORECASE)
ROOM = Limits.mebibytes * 2**20
"""The most bytes of all arrays of a run: half of this machine's memory, because a device gets a copy."""
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


def refuse_masked(x: object, called: str = "the array") -> None:
    """Raises `InputError` for a masked array, or a list with one, because NumPy would ignore the mask."""
    # `numpy.ma` takes 50 ms to import; no array is masked before it is imported.
    if isinstance(x, getattr(sys.modules.get("numpy.ma"), "MaskedArray", ())):
        raise InputError(f"{called} is masked, and its mask would be lost: pass x.filled(value), or x.data")
    if isinstance(x, list | tuple):
        for each in x:
            refuse_masked(each, called)


def parse_inputs(
    texts: Sequence[str], inputs: Sequence[SignatureValue] = (), seed: int = 0, mapped: bool = False
) -> list[Array]:
    """The arrays that `texts` describe, in the order of `inputs`.

    - `NAME=TEXT` and `@file.npz:NAME` describe the input with that name. The other texts describe the remaining inputs,
      in order. One text may describe several arrays (`@all.npz`).
    - The types of `inputs` complete texts without a type (`random`, `1,2,3`).
    - `seed` (at least 0) and the position of an array seed `random`. `mapped` maps `.npy` files, beside `ROOM`.

    Does not compare the number and types of the arrays with `inputs`; a call does. Raises `InputError` for malformed
    text, for a file that cannot be read, for arrays that take more than `ROOM` bytes together, and for an input that is
    named twice. If a text names an input, also raises `InputError` for an input without an array.
    """
    arrays: dict[int, Array] = {}
    placed = [_named(text, inputs) for text in texts]
    taken = [place for place, _ in placed if place is not None]
    if repeated := [inputs[place].name for place in taken if taken.count(place) > 1]:
        raise InputError(f"the input {repeated[0]!r} is given twice")
    free = (i for i in count() if i not in taken)
    for place, text in placed:
        room = ROOM - sum(x.nbytes for x in arrays.values() if not isinstance(x, np.memmap))
        if text.startswith("@"):
            for array in _read(text[1:], room, mapped):
                i = next(free) if place is None else place
                if i in arrays:
                    several = f"{_short(text)} holds several arrays"
                    raise InputError(f"{several}, and the input {inputs[i].name!r} takes one")
                arrays[i] = restored(array, _expected(inputs, i))
            continue
        i = next(free) if place is None else place
        generator = np.random.default_rng([seed, i])
        try:
            arrays[i] = parse_array(text, _expected(inputs, i), generator, room)
        except InputError:
            if i < len(inputs) or not inputs:
                raise
            listed = f"the inputs are: {', '.join(map(str, inputs))}"
            raise InputError(f"input {_short(text)} is one too many; {listed}") from None
    if taken and (missing := [x.name for i, x in enumerate(inputs) if i not in arrays]):
        raise InputError(f"no array is given for the input {missing[0]!r}")
    return [arrays[i] for i in sorted(arrays)]


def is_named(text: str, inputs: Sequence[SignatureValue]) -> bool:
    """Whether a text names an input, as `x=1,2` and `@all.npz:x` do."""
    return _named(text, inputs)[0] is not None


def _named(text: str, inputs: Sequence[SignatureValue]) -> tuple[int | None, str]:
    """The position of the input that a text names, and the text without the name. (None, text) without a name."""
    places = {value.name: i for i, value in enumerate(inputs)}
    if text.startswith("@"):
        key = text.rpartition(".npz:")[2]
        return (places[key] if key in places and key != text and not os.path.exists(text[1:]) else None), text
    named = [name for name in places if text.startswith(f"{name}=")]
    if named:
        name = max(named, key=len)
        return places[name], text[len(name) + 1 :]
    word, equals, _ = text.partition("=")
    if inputs and equals and re.fullmatch(r"[A-Za-z_][\w.]*", word) and word not in DTYPES:
        raise InputError(
            f"{word!r} is neither an input nor an element type; the inputs are: {', '.join(places)}"
        )
    return None, text


def _expected(inputs: Sequence[SignatureValue], index: int) -> TensorType | None:
    """The type of input `index`; None if there are fewer inputs."""
    return inputs[index].type if index < len(inputs) else None


def _short(text: str) -> str:
    """A text in quotes, shortened if it is long."""
    return repr(text if len(text) < 60 else f"{text[:57]}...")


def parse_array(
    text: str,
    expected: TensorType | None = None,
    generator: "np.random.Generator | None" = None,  # a string, because importing numpy.random takes time
    room: int = ROOM,
) -> Array:
    """The array that the text `TYPE=VALUES` describes. Without `TYPE=`, the type is `expected`.

    VALUES is a list in row-major order, nested like the shape or flat; or one value for all elements; or `zeros`; or
    `random` (see `random_array`). Raises `InputError` for malformed text, and for an array of more than `room` bytes.

    >>> parse_array("2x2xf32=[[1, 2], [3, 4]]")
    array([[1., 2.],
           [3., 4.]], dtype=float32)
    """
    spelled, equals, values = text.rpartition("=")
    try:
        type = TensorType.parse(spelled) if equals else expected
        if type is None:
            raise ValueError("a type is missing: write it as in 4xf32=1,2,3,4")
        if type.dtype is None:
            raise ValueError(f"unknown element type {type.element}; known: {', '.join(DTYPES)}")
        if values.strip() in ("zeros", "random") and None in type.shape:
            raise ValueError(f"{type} has a dynamic dimension: write the type with all sizes")
        drawn = 16 if values.strip() == "random" else 0  # bytes per element while drawing
        _check_room(math.prod(_sizes(type)) * (type.dtype.itemsize + drawn), room)
        if values.strip() == "zeros":
            return np.zeros(_sizes(type), type.dtype)
        if values.strip() == "random":
            return random_array(type, generator or np.random.default_rng(0))
        return _listed(values, type)
    except (ValueError, ArithmeticError, MemoryError) as error:
        instead = f"; for the file, write @{text}" if text.endswith((".npy", ".npz")) else ""
        raise InputError(f"input {_short(text)}: {str(error) or 'out of memory'}{instead}") from error


def _check_room(size: int, room: int) -> None:
    """Raises ValueError if `size` bytes exceed `room`."""
    if size > room:
        raise ValueError(f"too large: {size} bytes, but only {room} are left beside the other arrays")


def random_array(type: TensorType, generator: "np.random.Generator") -> Array:
    """An array of random elements: standard normal floats and complex numbers, integers from 0 to 9, booleans.

    The type must be static. NumPy must have its element type.
    """
    dtype, shape = type.dtype, _sizes(type)
    assert dtype is not None
    if dtype.kind == "c":
        drawn = generator.standard_normal((*shape, 2)) @ np.array([1, 1j])
    elif dtype.kind in "iub":
        drawn = generator.integers(0, 2 if dtype.kind == "b" else 10, shape)
    else:
        drawn = generator.standard_normal(shape)
    return np.asarray(drawn).astype(dtype)


def format_array(array: Array) -> str:
    """The array as text that `parse_array` reads, with enough digits to restore each element exactly.

    >>> format_array(np.array([[1, 2.5]], np.float32))
    '1x2xf32=[[1.0,2.5]]'
    """

    def written(part: object) -> str:
        if isinstance(part, list):
            return f"[{','.join(map(written, part))}]"
        return str(part)

    # str of a NumPy scalar is the shortest text that reads back as the same number; tolist would widen it first.
    spelled = np.array([str(element).lower().strip("()") for element in array.ravel()], object)
    body = written(spelled.reshape(array.shape).tolist()) if array.size else "[]"
    return f"{TensorType.of(array)}={body[1:-1] if array.ndim == 1 or not array.size else body}"


def summary(array: Array) -> str:
    """A line about an array that is too large to print: its type and, for floats, the range and the mean.

    >>> summary(np.arange(5000, dtype=np.float64))
    '5000xf64 (from 0 to 4999, mean 2499.5; -o keeps the 5000 elements)'
    """
    type, size = TensorType.of(array), array.size
    if not np.issubdtype(array.dtype, np.floating):
        return f"{type} ({size} elements; -o keeps them)"
    numbers = array[~np.isnan(array)].astype(np.float64)
    without = f", {size - numbers.size} NaN" if numbers.size < size else ""
    with np.errstate(invalid="ignore"):  # infinities of both signs have no mean
        low, high, mean = (
            (float(f(numbers)) for f in (np.min, np.max, np.mean)) if numbers.size else 3 * [np.nan]
        )
    return f"{type} (from {low:g} to {high:g}, mean {mean:g}{without}; -o keeps the {size} elements)"


def write_npz(path: str | os.PathLike[str], arrays: Mapping[str, Array]) -> None:
    """Writes the arrays to an `.npz` file under their names, atomically.

    An element type that NumPy's format lacks (bf16, f8) is written as raw bytes, which `parse_inputs` restores with the
    types of the signature. Raises `TiducError` if the file cannot be written.
    """
    # Not np.savez: it takes names as keyword arguments, and fails on some of them (`file`).
    with written_whole(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            array = np.asanyarray(array)
            # For dtypes of other packages, NumPy writes names that it cannot read.
            if array.dtype.isbuiltin == 2:
                array = array.view(f"V{array.dtype.itemsize}")
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)


def _sizes(type: TensorType) -> tuple[int, ...]:
    """The shape of a static type."""
    return tuple(size for size in type.shape if size is not None)


def _listed(values: str, type: TensorType) -> Array:
    """The array with these values: a list, nested like the shape or flat; or one value for all elements."""
    assert type.dtype is not None
    words, shape = _nested(values)
    with np.errstate(over="ignore"):  # `_element` has checked the range
        parsed = np.array([_element(word, type.dtype) for word in words], dtype=type.dtype)
    known = None not in type.shape
    if shape == () and known:
        return np.full(_sizes(type), parsed[0])
    if type.accepts(shape or (1,)):
        return parsed.reshape(shape or (1,))
    if len(shape) > 1 or not known:
        raise ValueError(f"expected {type}, got values of shape {'x'.join(map(str, shape)) or '1'}")
    count = math.prod(_sizes(type))
    if len(parsed) != count:
        raise ValueError(f"{type} has {count} element{'s' * (count != 1)}, got {len(parsed)}")
    return parsed.reshape(_sizes(type))


def _nested(values: str) -> tuple[list[str], tuple[int, ...]]:
    """The words of a bracketed list in row-major order, and the shape of the list. A word alone has shape ()."""
    words: list[str] = []
    counts = [0]  # the number of items of each open bracket, outermost first
    sizes: dict[int, int] = {}  # the size at each depth
    leaves: set[int] = set()  # the depths of the words
    for token in _TOKEN.findall(values):
        if token == "[":
            counts[-1] += 1
            counts.append(0)
        elif token == "]":
            if len(counts) == 1:
                raise ValueError("unmatched closing bracket")
            size = counts.pop()
            if sizes.setdefault(len(counts), size) != size:
                raise ValueError("the lists in brackets differ in length")
        elif token != ",":
            counts[-1] += 1
            leaves.add(len(counts))
            words.append(token)
    if len(counts) > 1:
        raise ValueError("unmatched opening bracket")
    if len(leaves) > 1:
        raise ValueError("a list mixes values and lists")
    if not sizes:
        return words, () if counts[0] == 1 else (counts[0],)
    shape = tuple(sizes[depth] for depth in sorted(sizes))
    return words, shape if counts[0] == 1 else (counts[0], *shape)


def _element(word: str, dtype: "np.dtype[Any]") -> Any:
    """The element that a word spells. Raises ValueError if the word spells no element of this dtype."""
    if dtype.kind == "b":
        if word.lower() not in _BOOLEANS:
            raise ValueError(f"{word!r} is not a boolean: write true or false")
        return _BOOLEANS[word.lower()]
    if dtype.kind in "iu":
        try:
            number, limits = int(word, 0 if "x" in word else 10), np.iinfo(dtype)
        except ValueError:
            raise ValueError(f"{word!r} is not an integer") from None
        if not limits.min <= number <= limits.max:
            raise ValueError(f"{word} does not fit {dtype}: {limits.min} to {limits.max}")
        return number
    try:
        value = complex(word) if dtype.kind == "c" else float(word)
    except ValueError:
        raise ValueError(f"{word!r} is not a number") from None
    with np.errstate(over="ignore"):
        if not np.isfinite(np.array(value, dtype)) and not _SPELLS_NO_FINITE.search(word):
            raise ValueError(f"{word} does not fit {dtype}")
    return value


def _read(name: str, room: int, mapped: bool = False) -> Iterator[Array]:
    """Yields the arrays of `file.npy`, `file.npz` or `file.npz:key`, in the file's order.

    `*` in the key matches any text.
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
    """A context with the file opened by `np.load`, or with `mapped` an array mapped into memory.

    Raises `InputError` for a damaged file or another format, also while the block reads the file.
    """
    try:
        with open_regular(path) as file:
            loaded = np.load(  # without pickles, which can run arbitrary code
                path if mapped else _bounded(file, room), "r" if mapped else None, allow_pickle=False
            )
            yield loaded
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror or error}", path) from error
    except InputError:
        raise
    except MemoryError as error:
        raise InputError(f"too large: {str(error) or 'out of memory'}", path) from error
    except Exception as error:  # NumPy parses headers as Python, and reads any zip archive
        # NumPy treats every unknown format as a pickle.
        reason = "" if "pickle" in str(error) else f": {error}"
        raise InputError(f"not a .npy or .npz file of numbers{reason}", path) from error


def _bounded(file: BinaryIO, room: int) -> BinaryIO:
    """Returns `file`. Raises `ValueError` if it exceeds `room` and is not an archive; `_members` checks archives."""
    if file.read(2) != b"PK":
        _check_room(os.fstat(file.fileno()).st_size, room)
    file.seek(0)
    return file


def _members(archive: NpzFile, names: Sequence[str], room: int) -> Iterator[Array]:
    """Yields the arrays with these names in an archive."""
    assert archive.zip is not None  # it is open
    for name in names:
        known = archive.zip.NameToInfo
        member = known.get(f"{name}.npy") or known[name]
        _check_room(member.file_size, room)
        # Other compression methods may expand a few bytes without limit before the size can be checked.
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"{name!r} is compressed in a way that NumPy does not write")
        array = archive[name]
        if not isinstance(array, np.ndarray):  # for a member that is no .npy file, NumPy returns bytes
            raise ValueError(f"{name!r} in it is not an array")
        room -= array.nbytes
        yield array


def read_npz(path: str) -> dict[str, Array]:
    """The arrays of an `.npz` file, by name. Raises InputError if the file cannot be read or has another format."""
    with _numbers(path, ROOM) as loaded:
        if isinstance(loaded, np.ndarray):
            raise InputError("the file holds one array without a name, not an .npz archive", path)
        return dict(zip(loaded.files, _members(loaded, loaded.files, ROOM), strict=True))


def _matching(pattern: str, keys: list[str]) -> list[str]:
    """The key that equals the pattern. Otherwise all keys that the pattern matches, in order."""
    if pattern in keys:
        return [pattern]
    expression = re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)
    return [key for key in keys if expression.fullmatch(key)]


def restored(array: Array, expected: TensorType | None) -> Array:
    """The array. Raw bytes become elements of the expected type if NumPy's format lacks this type (bf16, f8)."""
    dtype = expected.dtype if expected else None
    if dtype is None or array.dtype.kind != "V" or array.dtype.isbuiltin == 2:
        return array
    return array.view(dtype) if dtype.isbuiltin == 2 and array.dtype.itemsize == dtype.itemsize else array
