"""NumPy's functions that only move elements. NumPy moves the positions, and the result gathers the elements there.

    np.rot90(x)     np.rot90([[1, 2], [3, 4]]) = [[2, 4], [1, 3]]     the elements 2, 4, 1, 3 of [0, *x]

Position 0 is a zero, with which NumPy fills the rest of some results.
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
"""The parameters that hold the arrays whose elements each function moves."""


class _Numbered:
    """Arrays whose elements are numbered from 1, in order."""

    def __init__(self) -> None:
        self.values: list[EagerInput] = []
        self.count = 1

    def numbers(self, x: ArrayLike) -> NDArray[Any] | list[object]:
        """The numbers of the elements of an array, or of the arrays of a sequence, in their shapes."""
        if isinstance(x, (list, tuple)) and any(isinstance(each, (Array, np.ndarray)) for each in x):
            return [self.numbers(each) for each in x]
        value = valued(x)
        shape = value.data.shape
        first, self.count = self.count, self.count + int(np.prod(shape))
        self.values.append(value)
        return np.arange(first, self.count).reshape(shape)

    def line(self, with_zero: bool) -> EagerInput:
        """All elements in the order of their numbers; with `with_zero`, after a zero."""
        values = self.values
        dtype = np.result_type(*[x.data.dtype for x in values])
        zeros = [constant(np.zeros(1, dtype))] if with_zero else []
        if len(values) == 1 and not zeros:
            return values[0]
        return concatenate([*zeros, *(reshape(x, (x.data.size,)) for x in values)], 0)


def plain(x: object) -> Any:
    """The elements of an eager array; any other object itself."""
    return x.data if isinstance(x, Array) else x


def at(x: ArrayLike, positions: NDArray[Any]) -> Array:
    """The elements at these positions of the flattened x."""
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
