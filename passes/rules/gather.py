"""gather: slices at run-time positions."""

from collections.abc import Sequence
from typing import Any

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.graph import Definition
from tiduc.dialect.stablehlo import element, shape, with_shape
from tiduc.passes.rules.opset import linear


@linear("stablehlo.gather", [0])
def gather(b: Any, op: Definition, ct: Any) -> list[Any]:
    """Add the cotangent where the slices came from. Clamp first: gather does, but scatter drops."""
    x, indices = op.operands
    if 0 in (*shape(x), *shape(ct)):
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
    sizes = list(op.attributes["slice_sizes"])
    last = [shape(x)[i] - sizes[i] for i in d.start_index_map]
    inside = clamp_indices(b, indices, [0] * len(last), last, d.index_vector_dim)
    inside = signed(b, inside, max(last, default=0))
    sorted_ = is_sorted(op) and len(last) == 1  # else clamping may have changed the order
    return [b.scatter(b.zero(x.type), inside, ct, numbers, sorted_=sorted_), None]


def is_sorted(op: Definition) -> bool:
    """The op's promise that its indices are sorted."""
    return "indices_are_sorted" in op.attributes and op.attributes["indices_are_sorted"].value


def clamp_indices(b: Any, indices: Any, low: Sequence[int], high: Sequence[int], vector_dim: int) -> Any:
    """The indices, each component of a vector moved into its [low, high].

    A bound that the indices' type cannot hold is one that they cannot pass.
    """
    least, greatest = index_range(element(indices))
    bounds = [[min(max(v, least), greatest) for v in bound] for bound in (low, high)]
    at_least, at_most = (components(b, bound, indices.type, vector_dim) for bound in bounds)
    return b.clamp(at_least, indices, at_most)


def components(b: Any, values: Sequence[int], type_: Any, vector_dim: int) -> Any:
    """The same index vector everywhere in a tensor of them."""
    if len(set(values)) <= 1:
        return b.constant(values[0] if values else 0, type_)
    vector = b.constant(values, with_shape(type_, [len(values)]))
    return b.broadcast_in_dim(vector, [vector_dim], type_)


def signed(b: Any, indices: Any, largest: int) -> Any:
    """The indices in a type that holds `largest` with a sign; some targets read unsigned as signed."""
    fits = largest < 2 ** (element(indices).width - 1)
    return indices if fits else b.convert(indices, ir.IntegerType.get_signless(64))


def index_range(type_: Any) -> tuple[int, int]:
    """The least and the greatest value of an integer type."""
    if type_.is_unsigned:
        return 0, 2**type_.width - 1
    return -(2 ** (type_.width - 1)), 2 ** (type_.width - 1) - 1
