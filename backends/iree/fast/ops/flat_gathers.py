"""flat_gathers: gathers by one index for each slice, which is computed from several indices by elementwise ops.

    %0 = gather %x, (concatenate %i, %j), slices of 1x1x46      :  7194x5x46
    ->
    %0 = gather (reshape %x), clamp(%i) * 5 + clamp(%j), slices of 1x46      :  35970x46

IREE stores the concatenation of the indices, the clamped indices, and indices that are an iota, as in PyTorch's
`gather`. The computed indices are 32-bit integers if that suffices.
"""

import math

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.backends.iree.emit.emitter import Emitter, is_in_loop, is_static, rewrite, signless
from tiduc.backends.iree.emit.indices import clamped
from tiduc.backends.iree.fault import slow
from tiduc.dialect.graph.matching import defined_by
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import shape

_LEAST = 32
"""The fewest slices of a gather that is rewritten."""


@slow(
    "IREE stores concatenations of indices, and copies of them; tiduc computes one index for each slice.",
    "flags.py: pixels by index",
)
@stage
def flat_gathers(module: ir.Module | IrOp) -> int:
    """Rewrites, in place, gathers with several indices for each slice. Returns the number of rewritten gathers."""
    return rewrite(module, {"stablehlo.gather": _flat})


def _flat(b: Emitter, op: IrOp) -> list[IrValue] | None:
    """Rewrites a gather whose indexed dimensions adjoin and have slices of size 1. Returns None for other gathers."""
    x, indices = op.operands
    d = hlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
    indexed, taken = list(d.start_index_map), list(op.attributes["slice_sizes"])
    if len(indexed) < 2 or is_in_loop(op) or not is_static(x.type) or not is_static(indices.type):
        return None
    first, sizes = min(indexed), shape(x)
    dims = range(first, first + len(indexed))
    plain = not d.operand_batching_dims and d.index_vector_dim < len(shape(indices))
    if not plain or sorted(indexed) != [*dims] or list(d.collapsed_slice_dims) != [*dims]:
        return None
    count, slices = math.prod(sizes[i] for i in dims), math.prod(shape(indices)) // len(indexed)
    if slices < _LEAST or not count or any(taken[i] != 1 for i in dims):
        return None
    type_ = signless(32 if count < 2**31 else 64)
    at: IrValue | None = None
    for i, index in sorted(
        zip(indexed, _columns(b, indices, d.index_vector_dim), strict=True), key=lambda pair: pair[0]
    ):
        index = b.convert(clamped(b, index, [sizes[i] - 1], None), type_)
        at = index if at is None else b.add(b.multiply(at, b.constant(sizes[i], at)), index)
    assert at is not None
    given = {name: op.attributes[name] for name in op.attributes}
    given["dimension_numbers"] = hlo.GatherDimensionNumbers.get(
        offset_dims=d.offset_dims,
        collapsed_slice_dims=[first],
        operand_batching_dims=[],
        start_indices_batching_dims=[],
        start_index_map=[first],
        index_vector_dim=len(shape(at)),
    )
    given["slice_sizes"] = ir.DenseI64ArrayAttr.get([n for i, n in enumerate(taken) if i not in dims[1:]])
    rows = b.reshape(x, [*sizes[:first], count, *sizes[dims.stop :]])
    return [b.emit("stablehlo.gather", [rows, at], op.results[0].type, given)]


def _columns(b: Emitter, indices: IrValue, dimension: int) -> list[IrValue]:
    """The indices for each indexed dimension, without the dimension of the index vectors."""
    sizes = [n for i, n in enumerate(shape(indices)) if i != dimension]
    joined = defined_by(indices, "stablehlo.concatenate")
    if joined is not None and all(shape(x)[dimension] == 1 for x in joined.operands):
        if joined.attributes["dimension"].value == dimension:
            return [b.reshape(x, sizes) for x in joined.operands]
    return [b.reshape(b.cut(indices, dimension, i, i + 1), sizes) for i in range(shape(indices)[dimension])]
