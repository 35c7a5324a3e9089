"""Reads and writes arrays as text, for the arguments and results of commands such as `tiduc run`.

4xf32=1,2,3,4       2x2xf64=[[1,2],[3,4]]       4xf32=0 (all zero)      2xcomplex<f32>=1+2j,3
@x.npy              @all.npz (all its arrays)       @all.npz:weights        x=1,2,3 (for the input x)
random              zeros               64x64xf32=random        1,2,3,4 (with the type of the input)
"""

import math
import os
import re
import sys
from collections.abc import Sequence
from itertools import count
from typing import Any

import numpy as np

from tiduc.dialect.errors import InputError
from tiduc.runtime.array_files import ROOM, check_room, read_arrays, restored
from tiduc.runtime.signature import DTYPES, SignatureValue, TensorType

Array = np.ndarray[Any, np.dtype[Any]]

_TOKEN = re.compile(r"\s*([\[\],]|[^\s\[\],]+)")
_SPELLS_NO_FINITE = re.compile("nan|inf", re.IGNORECASE)
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


def refuse_masked(x: object, called: str = "the array") -> None:
    """Raises `InputError` for a masked array, or for a list that contains one, because NumPy would ignore the mask."""
    # Importing `numpy.ma` takes 50 ms. If nothing has imported it, no masked array exists.
    if isinstance(x, getattr(sys.modules.get("numpy.ma"), "MaskedArray", ())):
        raise InputError(f"{called} is masked, and its mask would be lost: pass x.filled(value), or x.data")
    if isinstance(x, list | tuple):
        for each in x:
            refuse_masked(each, called)


def parse_inputs(
    texts: Sequence[str], inputs: Sequence[SignatureValue] = (), seed: int = 0, mapped: bool = False
) -> list[Array]:
    """Returns the arrays that `texts` describe, in the order of `inputs`.

    - `NAME=TEXT` and `@file.npz:NAME` describe the input with that name. The other texts describe the remaining inputs,
      in order. One text may describe several arrays (`@all.npz`).
    - A text without a type (`random`, `1,2,3`) gets the type of the input that it describes.
    - The random generator for `random` is seeded with `seed` (at least 0) and the position of the array. `mapped` maps
      `.npy` files into memory; `ROOM` does not limit mapped files.

    Does not compare the number and types of the arrays with `inputs`; a call does. Raises `InputError` for malformed
    text, for a file that cannot be read, for arrays that take more than `ROOM` bytes together, and for an input that is
    named twice. If a text names an input, also raises `InputError` if any input has no array.
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
            for array in read_arrays(text[1:], room, mapped):
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
    """Whether a text names the input that it describes, as `x=1,2` and `@all.npz:x` do."""
    return _named(text, inputs)[0] is not None


def _named(text: str, inputs: Sequence[SignatureValue]) -> tuple[int | None, str]:
    """Returns the position of the input that a text names, and the text without `NAME=`.

    The position is None if the text names no input.
    """
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
    """The type of input `index`, or None if there are fewer inputs."""
    return inputs[index].type if index < len(inputs) else None


def _short(text: str) -> str:
    return repr(text if len(text) < 60 else f"{text[:57]}...")


def parse_array(
    text: str,
    expected: TensorType | None = None,
    generator: "np.random.Generator | None" = None,  # quoted, because importing numpy.random takes time
    room: int = ROOM,
) -> Array:
    """Returns the array that the text `TYPE=VALUES` describes. Without `TYPE=`, the array has the type `expected`.

    VALUES is one of these: a list in row-major order, which is flat or nested like the shape; one value for all
    elements; `zeros`; `random` (see `random_array`). Raises `InputError` for malformed text, and for an array of more
    than `room` bytes.

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
        # Drawing numbers takes additional bytes per element.
        drawn = 16 if values.strip() == "random" else 0
        check_room(math.prod(_sizes(type)) * (type.dtype.itemsize + drawn), room)
        if values.strip() == "zeros":
            return np.zeros(_sizes(type), type.dtype)
        if values.strip() == "random":
            return random_array(type, generator or np.random.default_rng(0))
        return _listed(values, type)
    except (ValueError, ArithmeticError, MemoryError) as error:
        instead = f"; for the file, write @{text}" if text.endswith((".npy", ".npz")) else ""
        raise InputError(f"input {_short(text)}: {str(error) or 'out of memory'}{instead}") from error


def random_array(type: TensorType, generator: "np.random.Generator") -> Array:
    """Returns an array of random elements.

    Floats, and the parts of complex numbers, have a standard normal distribution. Integers are from 0 to 9. The type
    must be static, and NumPy must have its element type.
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
    """Formats an array as text that `parse_array` reads, with enough digits to restore each element exactly.

    >>> format_array(np.array([[1, 2.5]], np.float32))
    '1x2xf32=[[1.0,2.5]]'
    """

    def written(part: object) -> str:
        if isinstance(part, list):
            return f"[{','.join(map(written, part))}]"
        return str(part)

    # str of a NumPy scalar is the shortest text for the number. `array.tolist()` would convert f32 to f64 first.
    spelled = np.array([str(element).lower().strip("()") for element in array.ravel()], object)
    body = written(spelled.reshape(array.shape).tolist()) if array.size else "[]"
    return f"{TensorType.of(array)}={body[1:-1] if array.ndim == 1 or not array.size else body}"


def summary(array: Array) -> str:
    """Describes an array that is too large to print by its type and, for floats, by its range and mean.

    >>> summary(np.arange(5000, dtype=np.float64))
    '5000xf64 (from 0 to 4999, mean 2499.5; -o keeps the 5000 elements)'
    """
    type, size = TensorType.of(array), array.size
    if not np.issubdtype(array.dtype, np.floating):
        return f"{type} ({size} elements; -o keeps them)"
    numbers = array[~np.isnan(array)].astype(np.float64)
    without = f", {size - numbers.size} NaN" if numbers.size < size else ""
    with np.errstate(invalid="ignore"):  # the mean of infinities of both signs is NaN
        low, high, mean = (
            (float(f(numbers)) for f in (np.min, np.max, np.mean)) if numbers.size else 3 * [np.nan]
        )
    return f"{type} (from {low:g} to {high:g}, mean {mean:g}{without}; -o keeps the {size} elements)"


def _sizes(type: TensorType) -> tuple[int, ...]:
    return tuple(size for size in type.shape if size is not None)


def _listed(values: str, type: TensorType) -> Array:
    """Returns the array with these values: a list, which is flat or nested like the shape, or one value for all
    elements.
    """
    assert type.dtype is not None
    words, shape = _nested(values)
    with np.errstate(over="ignore"):  # `_element` checks the range
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
    """Returns the words of a bracketed list in row-major order, and the shape of the list. The shape of a single word
    is ().
    """
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
    """Returns the element of type `dtype` that a word spells. Raises ValueError if the word spells no such element."""
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
            raise ValueError(f"{word} does not fit {dtype}, which ranges from {limits.min} to {limits.max}")
        return number
    try:
        value = complex(word) if dtype.kind == "c" else float(word)
    except ValueError:
        raise ValueError(f"{word!r} is not a number") from None
    with np.errstate(over="ignore"):
        if not np.isfinite(np.array(value, dtype)) and not _SPELLS_NO_FINITE.search(word):
            raise ValueError(f"{word} does not fit {dtype}")
    return value
