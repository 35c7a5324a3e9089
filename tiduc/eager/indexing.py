"""Reads and writes elements of eager values by NumPy's rules of indexing.

An index with integers and slices of step 1 becomes a dynamic slice, or a dynamic update slice. An index with arrays,
booleans or other steps becomes a gather or a scatter in the flattened array, and NumPy computes the positions.
Positions are operands of the ops, not constants. An op `x[i]` in a loop is therefore compiled only once.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import Any, SupportsIndex, TypeGuard

import numpy as np
from numpy.typing import NDArray
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Value
from tiduc.dialect.shapes.types import shape, with_shape
from tiduc.eager.elementwise import convert
from tiduc.eager.movement import broadcast_to, reshape
from tiduc.eager.record import EagerInput
from tiduc.eager.session import apply, constant


@dataclass(frozen=True)
class BasicIndex:
    """A basic index: `sizes[d]` elements from `start[d]` along each dimension d. The result has the shape `result`."""

    start: tuple[int, ...]
    sizes: tuple[int, ...]
    result: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Positions:
    """An index that is not basic. `flat` holds the position in the flattened array of each selected element."""

    flat: NDArray[np.int64]


Index = BasicIndex | Positions


BasicEntry = SupportsIndex | slice | EllipsisType | None
IndexEntry = BasicEntry | NDArray[Any] | Sequence[int] | Sequence[Sequence[int]]
IndexKey = IndexEntry | tuple[IndexEntry, ...]
"""An index as in NumPy: an entry, or a tuple of entries."""


def index_of(key: IndexKey, sizes: tuple[int, ...]) -> Index:
    """Resolves an index for an array of the shape `sizes`. Raises `IndexError` if the index is invalid."""
    entries = key if isinstance(key, tuple) else (key,)
    basic = [entry for entry in entries if _is_basic(entry)]
    if len(basic) == len(entries) and (box := _basic_index(tuple(basic), sizes)) is not None:
        return box
    every = np.arange(math.prod(sizes)).reshape(sizes)
    return Positions(np.asarray(every[key], np.int64, order="C"))


def sizes_of(index: Index) -> tuple[int, ...]:
    """The shape of the array that the index selects."""
    return index.result if isinstance(index, BasicIndex) else index.flat.shape


def is_view(key: IndexKey, sizes: tuple[int, ...]) -> bool:
    """Whether NumPy returns a view for this index, and not a copy or a scalar. `sizes` is the shape of the result."""
    entries = key if isinstance(key, tuple) else (key,)
    is_array = bool(sizes) or any(entry is Ellipsis for entry in entries)
    return is_array and all(_is_basic(entry, any_step=True) for entry in entries)


def _is_basic(entry: IndexEntry, any_step: bool = False) -> TypeGuard[BasicEntry]:
    if isinstance(entry, slice):
        return any_step or entry.step in (None, 1)
    if isinstance(entry, bool | np.bool_):
        return False
    return entry is None or entry is Ellipsis or isinstance(entry, int | np.integer)


def _basic_index(entries: tuple[BasicEntry, ...], sizes: tuple[int, ...]) -> BasicIndex | None:
    """Resolves an index without arrays and steps. Returns None if it is invalid, so that NumPy raises the error."""
    used = sum(entry is not None and entry is not Ellipsis for entry in entries)
    if used > len(sizes) or sum(entry is Ellipsis for entry in entries) > 1:
        return None
    if not any(entry is Ellipsis for entry in entries):
        entries = (*entries, Ellipsis)
    start: list[int] = []
    lengths: list[int] = []
    result: list[int] = []
    for entry in entries:
        if entry is None:
            result.append(1)
        elif entry is Ellipsis:
            rest = sizes[len(start) : len(start) + len(sizes) - used]
            start += [0] * len(rest)
            lengths += rest
            result += rest
        elif isinstance(entry, slice):
            first, last, _ = entry.indices(sizes[len(start)])
            start.append(first)
            lengths.append(max(last - first, 0))
            result.append(lengths[-1])
        else:
            n, place = sizes[len(start)], int(entry)
            if not -n <= place < n:
                return None
            start.append(place % n)
            lengths.append(1)
    return BasicIndex(tuple(start), tuple(lengths), tuple(result))


def get(x: EagerInput, index: Index) -> EagerInput:
    """The elements of x at an index, as a new value."""
    if math.prod(sizes_of(index)) == 0:
        return _no_elements(x, sizes_of(index))
    if isinstance(index, Positions):
        return _gathered(x, index.flat)
    if index.sizes == x.data.shape:
        return reshape(x, index.result)
    sizes, result = index.sizes, index.result

    def emit(b: StablehloBuilder, x: Value, *start: Value) -> list[Value]:
        return [b.reshape(b.dynamic_slice(x, start, sizes), result)]

    return apply(("slice", sizes, result), emit, x, *map(constant, np.array(index.start, np.int64)))


def put(x: EagerInput, index: Index, new: EagerInput) -> EagerInput:
    """A copy of x in which the elements at an index are replaced by `new`.

    If a position occurs several times in the index, its last element in `new` is written, as in NumPy.
    """
    sizes = sizes_of(index)
    new = convert(broadcast_to(_without_leading_ones(new, len(sizes)), sizes), x.data.dtype)
    if math.prod(sizes) == 0:
        return x
    if isinstance(index, Positions):
        return _scattered(x, index.flat, new)
    box = index.sizes
    if box == x.data.shape:
        return reshape(new, box)

    def emit(b: StablehloBuilder, x: Value, new: Value, *start: Value) -> list[Value]:
        return [b.dynamic_update_slice(x, b.reshape(new, box), start)]

    return apply(("update", box), emit, x, new, *map(constant, np.array(index.start, np.int64)))


def _without_leading_ones(x: EagerInput, rank: int) -> EagerInput:
    """x with leading dimensions of size 1 dropped while x has more than `rank` dimensions. Assignments allow these."""
    sizes = x.data.shape
    while len(sizes) > rank and sizes[0] == 1:
        sizes = sizes[1:]
    return reshape(x, sizes)


def _no_elements(x: EagerInput, sizes: tuple[int, ...]) -> EagerInput:
    """An array of size 0 that depends on x."""

    def emit(b: StablehloBuilder, x: Value) -> list[Value]:
        line = b.reshape(x, [math.prod(shape(x))])
        return [b.reshape(b.slice(line, [0], [0], [1]), sizes)]

    return apply(("no elements", sizes), emit, x)


def _gathered(x: EagerInput, flat: NDArray[np.int64]) -> EagerInput:
    rank = flat.ndim

    def emit(b: StablehloBuilder, x: Value, positions: Value) -> list[Value]:
        line = b.reshape(x, [math.prod(shape(x))])
        at = b.reshape(positions, [*shape(positions), 1])
        numbers = hlo.GatherDimensionNumbers.get([], [0], [], [], [0], rank)
        return [b.gather(line, at, numbers, (1,), with_shape(x.type, shape(positions)))]

    return apply(("gather",), emit, x, constant(flat))


def _scattered(x: EagerInput, flat: NDArray[np.int64], new: EagerInput) -> EagerInput:
    flat, new = flat.reshape(-1), reshape(new, (flat.size,))
    last = np.sort(flat.size - 1 - np.unique(flat[::-1], return_index=True)[1])
    if last.size < flat.size:
        flat, new = flat[last], _gathered(new, last)

    def emit(b: StablehloBuilder, x: Value, positions: Value, new: Value) -> list[Value]:
        line = b.reshape(x, [math.prod(shape(x))])
        at = b.reshape(positions, [*shape(positions), 1])
        numbers = hlo.ScatterDimensionNumbers.get([], [0], [], [], [0], 1)
        written = b.scatter(line, at, new, numbers, reducer=None, unique=True)
        return [b.reshape(written, shape(x))]

    return apply(("scatter",), emit, x, constant(flat), new)
