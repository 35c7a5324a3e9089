"""The rule of gather, and functions on indices, which the rules of scatters and of batching use, too."""

from collections.abc import Sequence
from typing import Any

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.mlir.constants import integer_in
from tiduc.dialect.ops.ir_types import Typed
from tiduc.dialect.ops.traits import VIEWS
from tiduc.dialect.shapes.sizes import Extent, Size, any_dynamic
from tiduc.dialect.shapes.types import element, is_empty, rank, shape, with_shape
from tiduc.passes.rules.opset import linear


@linear("stablehlo.gather", [0])
def gather(b: StablehloBuilder, op: Definition, ct: Value) -> list[Value]:
    return gathered(b, op, ct, list(op.attributes["slice_sizes"]))


def gathered(b: StablehloBuilder, op: Definition, ct: Value, sizes: Sequence[Extent]) -> list[Any]:
    """Adds the cotangent by a scatter to the elements that the gather read.

    Indices are clamped first, because gather clamps out-of-range indices and scatter drops them.
    """
    x, indices = op.operands[:2]
    if is_empty(x) or is_empty(ct):
        return [None, None]
    d = hlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
    numbers = hlo.ScatterDimensionNumbers.get(
        d.offset_dims,
        d.collapsed_slice_dims,
        d.operand_batching_dims,
        d.start_indices_batching_dims,
        d.start_index_map,
        d.index_vector_dim,
    )
    last = [shape(x)[i] - sizes[i] for i in d.start_index_map]
    inside = clamp_indices(b, indices, [0] * len(last), last, d.index_vector_dim)
    sorted_ = is_sorted(op) and (inside is indices or len(last) == 1)  # clamped vectors may be unsorted
    inside = signed(b, inside, last)
    return [b.scatter(b.zeros_like(x), inside, ct, numbers, sorted_=sorted_), None]


def is_sorted(op: Definition) -> bool:
    """Whether the op promises that its indices are sorted."""
    return "indices_are_sorted" in op.attributes and op.attributes["indices_are_sorted"].value


def clamp_indices(
    b: StablehloBuilder, indices: Value, low: Sequence[int], high: Sequence[Extent], vector_dim: int
) -> Value:
    """Clamps each component of index vectors to its range [low, high], and returns the indices.

    Returns indices unchanged if they are known to be in range.
    """
    if any_dynamic(low, high):
        if element(indices).width < 32:  # dynamic sizes are i32
            indices = b.convert(indices, ir.IntegerType.get_signless(32))
    else:
        least, greatest = known_range(b, indices)
        if least >= max(low, default=least) and greatest <= min(high, default=greatest):
            return indices
    least, greatest = type_range(indices)  # bounds outside the range of the type never matter
    bounds = [
        [v if any_dynamic([v]) else min(max(v, least), greatest) for v in bound] for bound in (low, high)
    ]
    at_least, at_most = (components(b, bound, indices, vector_dim) for bound in bounds)
    return b.clamp(at_least, indices, at_most)


def components(b: StablehloBuilder, values: Sequence[Extent], like: Value, vector_dim: int) -> Value:
    """Broadcasts one index vector, `values`, to the shape of the index tensor `like`."""
    numbers = [n for n in values if not isinstance(n, Size)]
    if len(numbers) < len(values):
        vector = b.convert(b.sizes(values), element(like))
        if vector_dim == rank(like):  # the indices are scalars, without a dimension for their components
            return b.broadcast_in_dim(b.reshape(vector, []), [], like)
        return b.broadcast_in_dim(vector, [vector_dim], like)
    if len(set(numbers)) <= 1:
        return b.constant(numbers[0] if numbers else 0, like)
    vector = b.constant(numbers, with_shape(like.type, [len(numbers)]))
    return b.broadcast_in_dim(vector, [vector_dim], like)


def signed(b: StablehloBuilder, indices: Value, up_to: Sequence[Extent]) -> Value:
    """Converts indices to i64 if `up_to` exceeds the signed range of their type, which some targets assume."""
    largest = 2**31 - 1 if any_dynamic(up_to) else max(up_to, default=0)
    fits = largest < 2 ** (element(indices).width - 1)
    return indices if fits else b.convert(indices, ir.IntegerType.get_signless(64))


def known_range(b: StablehloBuilder, x: Value, depth: int = 8) -> tuple[int, int]:
    """Returns bounds of the integers in x, from the ops that compute x, such as constants, or else from their type."""
    d: Any = x.definition if depth else None
    name = None if d is None else d.name
    if name == "stablehlo.iota":
        count = shape(x)[d.attributes["iota_dimension"].value]
        if not any_dynamic([count]) and count <= type_range(x)[1]:
            return 0, max(0, count - 1)
    if name == "stablehlo.sort":
        return known_range(b, d.operands[d.results.index(x)], depth - 1)
    if name == "stablehlo.constant" and isinstance(value := d.attributes["value"], ir.DenseIntElementsAttr):
        if (number := integer_in(value)) is not None:
            return number, number
        if len(value) and element(x).width >= 8:  # MLIR's bindings cannot iterate over narrower types
            return min(value), max(value)
    if name in VIEWS:
        lows, highs = zip(*(known_range(b, part, depth - 1) for part in d.operands), strict=True)
        return min(lows), max(highs)
    if name == "stablehlo.clamp":
        low, high = (known_range(b, d.operands[i], depth - 1) for i in (0, 2))
        return min(low[0], high[0]), high[1]
    return type_range(x)


def type_range(x: Typed) -> tuple[int, int]:
    """Returns the least and the greatest value of an integer tensor's element type."""
    width = element(x).width
    return (0, 2**width - 1) if element(x).is_unsigned else (-(2 ** (width - 1)), 2 ** (width - 1) - 1)
