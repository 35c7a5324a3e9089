"""The relations between sizes that ops with slices, indices, paddings, broadcasts and reshapes require."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.dynamic.results import aligned, rank_of, window, windows
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.ops.traits import BROADCASTING
from tiduc.dialect.shapes.origins import entry, scalar, size_of
from tiduc.dialect.shapes.sizes import Size, product
from tiduc.dialect.shapes.types import bits

EQUAL, AT_MOST, BROADCAST, BROADCASTABLE, COUNT = "equal", "at_most", "broadcast", "broadcastable", "count"

MOST_ELEMENTS = 2**48
"""The largest element count that checks of sizes allow.

The number is so large that no memory holds more elements, and so small that their size in bytes fits in 64 bits.
"""


MOST_ROWS = 2**31 - 1
"""The largest element count that an array of dynamic shape may have if a scatter updates it.

The reason is that IREE indexes the rows of this array by 32-bit integers.
"""


@dataclass(frozen=True)
class Requirement:
    """A condition that sizes must satisfy. The field `relation` says which condition:

    `equal`: a = b; `at_most`: a <= b; `broadcast`: a = 1 or a = b; `broadcastable`: a = 1, b = 1 or a = b;
    `count`: a is a list of sizes, and their product is at most b.
    """

    relation: str
    a: Any
    b: Any


Bounds = Callable[[Definition], Iterable[Requirement]]


def all_sizes(x: Value) -> list[int | Size]:
    """The sizes of a value's dimensions."""
    return [size_of(x, d) for d in range(rank_of(x))]


def _size_at(x: Value, i: int) -> Any:
    """The size that entry i of the vector x holds: an int or a `Size`."""
    origin = entry(x, i)
    return origin.combine(*(size_of(*place) for place in origin.places))


def _at_most(least: Iterable[int | Size], most: Iterable[int | Size]) -> Iterator[Requirement]:
    for a, b in zip(least, most, strict=True):
        if isinstance(a, Size) or isinstance(b, Size):
            yield Requirement(AT_MOST, a, b)


def _slice(op: Definition) -> Iterator[Requirement]:
    yield from _at_most(op.attributes["limit_indices"], all_sizes(op.operands[0]))


def _dynamic_slice(op: Definition) -> Iterator[Requirement]:
    yield from _at_most(op.attributes["slice_sizes"], all_sizes(op.operands[0]))


def _dynamic_update_slice(op: Definition) -> Iterator[Requirement]:
    yield from _at_most(all_sizes(op.operands[1]), all_sizes(op.operands[0]))


def _real_dynamic_slice(op: Definition) -> Iterator[Requirement]:
    x, start, limit, strides = op.operands
    for d in range(rank_of(x)):
        first, end, step = (_size_at(bound, d) for bound in (start, limit, strides))
        for a, b in ((0, first), (first, end), (end, size_of(x, d)), (1, step)):
            yield Requirement(AT_MOST, a, b)


def _dynamic_pad(op: Definition) -> Iterator[Requirement]:
    interior = op.operands[4]
    yield from (Requirement(AT_MOST, 0, _size_at(interior, d)) for d in range(rank_of(op.operands[0])))


def _gather(op: Definition) -> Iterator[Requirement]:
    x, indices = op.operands[:2]
    n = hlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
    dynamic = len(op.operands) == 3
    taken = [
        _size_at(op.operands[2], d) if dynamic else op.attributes["slice_sizes"][d] for d in range(rank_of(x))
    ]
    yield from _at_most(taken, all_sizes(x))
    yield from (Requirement(AT_MOST, 0, m) for m in taken if isinstance(m, Size))
    for d in (*n.collapsed_slice_dims, *n.operand_batching_dims):
        yield from _at_most([taken[d]], [1])
    yield from _indices(indices, n.index_vector_dim, len(n.start_index_map))


def _indices(indices: Value, along: int, count: int) -> Iterator[Requirement]:
    if along < rank_of(indices):
        yield Requirement(EQUAL, size_of(indices, along), count)


def _scatter(op: Definition) -> Iterator[Requirement]:
    count = len(op.results)
    x, indices, updates = op.operands[0], op.operands[count], op.operands[count + 1]
    n = hlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    outside = {*n.inserted_window_dims, *n.input_batching_dims}
    inside = [d for d in range(rank_of(x)) if d not in outside]
    windowed = list(n.update_window_dims)
    yield from _at_most([size_of(updates, d) for d in windowed], [size_of(x, d) for d in inside])
    yield from _at_most([1] * len(n.inserted_window_dims), [size_of(x, d) for d in n.inserted_window_dims])
    yield from _indices(indices, n.index_vector_dim, len(n.scattered_dims_to_operand_dims))
    if any(isinstance(size, Size) for size in all_sizes(x)):
        yield Requirement(COUNT, all_sizes(x), MOST_ROWS)


def _same_count(op: Definition) -> Iterator[Requirement]:
    """Yields the requirement that a reshape with dynamic sizes keeps the element count.

    Before it, yields the requirements that both counts are at most `MOST_ELEMENTS`, so that no product overflows.
    """
    x, y = all_sizes(op.operands[0]), all_sizes(op.result)
    if any(isinstance(n, Size) for n in (*x, *y)):
        yield from (Requirement(COUNT, sizes, MOST_ELEMENTS) for sizes in (x, y))
        yield Requirement(EQUAL, product(x), product(y))


def _broadcast_in_dim(op: Definition) -> Iterator[Requirement]:
    x, y = op.operands[0], op.result
    known = {
        name: set(op.attributes[name]) if name in op.attributes else set()
        for name in ("known_expanding_dimensions", "known_nonexpanding_dimensions")
    }
    for i, d in enumerate(op.attributes["broadcast_dimensions"]):
        if i in known["known_expanding_dimensions"]:
            yield Requirement(EQUAL, size_of(x, i), 1)
        elif i in known["known_nonexpanding_dimensions"]:
            yield Requirement(EQUAL, size_of(x, i), size_of(y, d))
        else:
            yield Requirement(BROADCAST, size_of(x, i), size_of(y, d))


def _chlo_broadcast(op: Definition) -> Iterator[Requirement]:
    met: dict[int, list[Any]] = {}
    for d, place in aligned(op):
        size = size_of(*place)
        yield from (Requirement(BROADCASTABLE, other, size) for other in met.setdefault(d, []))
        met[d].append(size)


def _convolution(op: Definition) -> Iterator[Requirement]:
    x, kernel = op.operands[:2]
    n = hlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    groups = int(op.attributes["feature_group_count"].value)
    features = size_of(kernel, n.kernel_input_feature_dimension)
    yield Requirement(EQUAL, size_of(x, n.input_feature_dimension), features * groups)
    outer = int(op.attributes["batch_group_count"].value)
    batch = size_of(x, n.input_batch_dimension)
    yield Requirement(EQUAL, batch, batch // outer * outer)
    out = size_of(kernel, n.kernel_output_feature_dimension)
    yield Requirement(EQUAL, out, out // (groups * outer) * (groups * outer))


def _select_and_scatter(op: Definition) -> Iterator[Requirement]:
    x, source = op.operands[:2]
    for d in range(rank_of(x)):
        yield Requirement(EQUAL, size_of(source, d), windows(size_of(x, d), *window(op, d)))


def _set_dimension_size(op: Definition) -> Iterator[Requirement]:
    x, size = op.operands[0], scalar(op.operands[1])
    new = size.combine(*(size_of(*place) for place in size.places))
    yield Requirement(AT_MOST, 0, new)
    yield Requirement(AT_MOST, new, size_of(x, op.attributes["dimension"].value))


def _bitcast_convert(op: Definition) -> Iterator[Requirement]:
    x, y = op.operands[0], op.result
    if rank_of(x) != rank_of(y):
        longer, other = (x, y) if rank_of(x) > rank_of(y) else (y, x)
        count = bits(other) // bits(longer)
        yield Requirement(EQUAL, size_of(longer, rank_of(longer) - 1), count)


def _top_k(op: Definition) -> Iterator[Requirement]:
    last = rank_of(op.operands[0]) - 1
    yield Requirement(AT_MOST, op.attributes["k"].value, size_of(op.operands[0], last))


def _fft(op: Definition) -> Iterator[Requirement]:
    lengths, x, y = list(op.attributes["fft_length"]), op.operands[0], op.result
    first = rank_of(x) - len(lengths)
    for i, n in enumerate(lengths):
        for value in (x, y):
            halved = i == len(lengths) - 1 and str(op.attributes["fft_type"]).endswith(
                "IRFFT>" if value is x else " RFFT>"
            )
            yield Requirement(EQUAL, size_of(value, first + i), n // 2 + 1 if halved else n)


BOUNDS: dict[str, Bounds] = {
    "stablehlo.bitcast_convert": _bitcast_convert,
    "stablehlo.broadcast_in_dim": _broadcast_in_dim,
    "stablehlo.convolution": _convolution,
    "stablehlo.dynamic_broadcast_in_dim": _broadcast_in_dim,
    "stablehlo.dynamic_conv": _convolution,
    "stablehlo.dynamic_gather": _gather,
    "stablehlo.dynamic_pad": _dynamic_pad,
    "stablehlo.dynamic_reshape": _same_count,
    "stablehlo.dynamic_slice": _dynamic_slice,
    "stablehlo.dynamic_update_slice": _dynamic_update_slice,
    "stablehlo.fft": _fft,
    "stablehlo.gather": _gather,
    "stablehlo.real_dynamic_slice": _real_dynamic_slice,
    "stablehlo.reshape": _same_count,
    "stablehlo.scatter": _scatter,
    "stablehlo.select_and_scatter": _select_and_scatter,
    "stablehlo.set_dimension_size": _set_dimension_size,
    "stablehlo.slice": _slice,
    "chlo.top_k": _top_k,
    **dict.fromkeys(BROADCASTING, _chlo_broadcast),
}
"""Maps an op name to a function that yields relations which an op of this name requires.

`dialect/dynamic/required.py` derives further relations for each op. They are all that an op not listed here requires.
"""
