"""NumPy's functions that only rearrange elements.

NumPy's own function is called with the positions of the elements, and returns the positions for a gather:

    np.rot90(x)     np.rot90([[1, 2], [3, 4]]) = [[2, 4], [1, 3]]     gathers elements 2, 4, 1, 3 of [0, *x]

Position 0 holds a zero, because some functions, such as `np.diag`, fill a part of the result with zeros.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiduc.eager.array import Array, valued
from tiduc.eager.indexing import Positions, get
from tiduc.eager.movement import concatenate, reshape
from tiduc.eager.record import EagerInput
from tiduc.eager.registry import FUNCTIONS, NumpyFunction, parameters
from tiduc.eager.session import constant

MOVES: dict[Any, str] = {
    np.append: "arr values",
    np.column_stack: "tup",
    np.compress: "a",
    np.delete: "arr",
    np.diag: "v",
    np.diagflat: "v",
    np.diagonal: "a",
    np.dstack: "tup",
    np.extract: "arr",
    np.fft.fftshift: "x",
    np.fft.ifftshift: "x",
    np.fliplr: "m",
    np.flipud: "m",
    np.linalg.diagonal: "x",
    np.repeat: "a",
    np.resize: "a",
    np.roll: "a",
    np.rot90: "m",
    np.take: "a",
    np.tile: "A",
}
"""For each function: the names of the parameters whose elements it rearranges."""


class _Numbered:
    """Assigns consecutive integers, beginning with 1, to the elements of arrays."""

    def __init__(self) -> None:
        self.values: list[EagerInput] = []
        self.count = 1

    def numbers(self, x: ArrayLike) -> NDArray[Any] | list[object]:
        """Assigns integers to the elements of an array, and returns them in the shape of the array.

        For a sequence of arrays, returns a list with the integers of each array.
        """
        if isinstance(x, (list, tuple)) and any(isinstance(each, (Array, np.ndarray)) for each in x):
            return [self.numbers(each) for each in x]
        value = valued(x)
        shape = value.data.shape
        first, self.count = self.count, self.count + int(np.prod(shape))
        self.values.append(value)
        return np.arange(first, self.count).reshape(shape)

    def line(self, with_zero: bool) -> EagerInput:
        """The elements of all arrays in the order of their integers. With `with_zero`, a zero is inserted in front."""
        values = self.values
        dtype = np.result_type(*[x.data.dtype for x in values])
        zeros = [constant(np.zeros(1, dtype))] if with_zero else []
        if len(values) == 1 and not zeros:
            return values[0]
        return concatenate([*zeros, *(reshape(x, (x.data.size,)) for x in values)], 0)


def plain(x: object) -> Any:
    """The elements of an eager array as a NumPy array. Returns any other object unchanged."""
    return x.data if isinstance(x, Array) else x


def at(x: ArrayLike, positions: NDArray[Any]) -> Array:
    """Gathers the elements at these positions of the flattened x."""
    return Array.of(get(valued(x), Positions(np.asarray(positions, np.int64, order="C"))))


def _moving(function: NumpyFunction, sources: Sequence[str]) -> Callable[..., Array]:
    names = tuple(parameters(function))

    def implementation(*args: ArrayLike, **options: ArrayLike) -> Array:
        numbered = _Numbered()

        def given(name: str, x: ArrayLike) -> object:
            return numbered.numbers(x) if name in sources else plain(x)

        moved = function(
            *[given(name, x) for name, x in zip(names, args, strict=False)],
            **{name: given(name, x) for name, x in options.items()},
        )
        with_zero = bool(moved.size) and int(moved.min()) == 0
        line = numbered.line(with_zero)
        positions = np.asarray(moved - (not with_zero), np.int64, order="C")
        return Array.of(get(line, Positions(positions)))

    return implementation


FUNCTIONS.update({function: _moving(function, names.split()) for function, names in MOVES.items()})
