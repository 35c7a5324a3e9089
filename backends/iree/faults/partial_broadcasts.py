"""Rewrites sums of products in which a factor is broadcast along some, but not all, of the summed dimensions.

    %b = broadcast_in_dim %y, dims = [1]               %b = broadcast_in_dim %y, dims = [1]
    %p = multiply %x, %b : tensor<4x7xf32>      ->     %p = multiply %x, %b : tensor<4x7xf32>
    reduce add %p, dimensions = [0, 1]                 %s = reduce add %p, dimensions = [1]
                                                       reduce add %s, dimensions = [0]

For CPUs, IREE turns such a reduction or convolution into a `vector.contract` and folds the broadcast into an operand.
It then rejects the op, because this operand lacks a contracted dimension that the other operand has.
"""

import math
from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.backends.iree.emit.arrays import behind_barrier
from tiduc.backends.iree.emit.emitter import ON_CPUS, Emitter, legalize
from tiduc.backends.iree.fault import crash
from tiduc.dialect.emitters.bodies import reducer
from tiduc.dialect.graph.dependences import computed_from, is_constant, reached
from tiduc.dialect.graph.matching import definition, traced
from tiduc.dialect.ops.contractions import Contraction
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.ops.traits import ELEMENTWISE, NEUTRAL
from tiduc.dialect.shapes.types import element

_BROADCASTS = "stablehlo.broadcast_in_dim", "stablehlo.dynamic_broadcast_in_dim"
_RESHAPES = "stablehlo.reshape", "stablehlo.transpose"


@legalize("stablehlo.reduce", where=ON_CPUS)
@crash(
    "IREE rejects sums along several dimensions of products with a broadcast; tiduc sums along the last one first.",
    "sum_of_broadcast_products",
)
def reduce(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Sums along the last summed dimension first, then along the others. Returns None if IREE accepts the op.

    If the op has several results or converts its elements, only puts a barrier before its operands instead.
    """
    sizes = op.operands[0].type.shape
    dimensions = [d for d in sorted(op.attributes["dimensions"]) if sizes[d] != 1]
    count = len(op.results)
    if len(dimensions) < 2 or not any(_is_rejected(op, i, dimensions) for i in range(count)):
        return None
    if count > 1 or element(op.operands[0]) != element(op.results[0]):
        return b.clone(op, dict(enumerate(behind_barrier(b, *list(op.operands)[:count]))))
    x, init = op.operands
    last = dimensions[-1]
    others = [d - (d > last) for d in op.attributes["dimensions"] if d != last]
    neutral = b.constant(NEUTRAL["stablehlo.add"], init)  # so that the initial value is added once
    return [b.reduce(b.reduce(x, neutral, [last]), init, others)]


@legalize("stablehlo.convolution", where=ON_CPUS)
@crash(
    "IREE rejects a convolution with one window if an operand is broadcast; a barrier stores the operand.",
    "convolution_of_broadcast",
)
@crash(
    "IREE rejects broadcast operands if each dimension has one window or a kernel of size 1; a barrier stores them.",
    "convolution_of_broadcast_by_points",
)
@crash(
    "IREE rejects elementwise functions of broadcasts if there is one window; a barrier stores them.",
    "convolution_of_broadcast_sums",
)
def convolution(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Puts barriers before operands that are broadcasts, if each spatial dimension has one window or kernel size 1.

    Returns None in other cases, because IREE accepts these.
    """
    numbers = hlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    windows = [op.results[0].type.shape[d] for d in numbers.output_spatial_dimensions]
    kernel = [op.operands[1].type.shape[d] for d in numbers.kernel_spatial_dimensions]
    if any(1 not in sizes for sizes in zip(windows, kernel, strict=True)):
        return None
    if math.prod(kernel) == 1 != math.prod(windows):
        return None  # a product of matrices, which IREE accepts
    stored = {i: behind_barrier(b, x)[0] for i, x in enumerate(op.operands) if _is_repeated(x)}
    return b.clone(op, stored) if stored else None


def _is_repeated(x: IrValue) -> bool:
    """Whether IREE may find that a value is a broadcast, because it moves broadcasts past elementwise ops.

    The value must be computed by elementwise ops and reshapes from constants and broadcasts only. At least one of the
    broadcasts must have an operand of more than one element.
    """

    def operands(y: IrValue) -> Sequence[IrValue]:
        op = definition(y)
        if op is None or not (op.name in ELEMENTWISE or op.name in _RESHAPES):
            return []
        return list(op.operands)

    sources = [definition(y) for y in reached([x], operands) if not operands(y)]
    known = [op for op in sources if op is not None and op.name in (*_BROADCASTS, "stablehlo.constant")]
    if len(known) < len(sources):
        return False
    return any(op.operands and math.prod(op.operands[0].type.shape) != 1 for op in known)


def _is_rejected(op: IrOp, i: int, dimensions: Sequence[int]) -> bool:
    """Whether IREE may reject reduction i of an op. `dimensions` are the reduced dimensions whose size is not 1."""
    x = op.operands[i]
    if reducer(op, i) != "stablehlo.add" or is_constant(x):
        return False
    *_, product = traced(x, _RESHAPES)
    if not isinstance(product, ir.OpResult):
        return False
    if product.owner.name == "stablehlo.dot_general":
        return _is_outer(product.owner)
    return product.owner.name == "stablehlo.multiply" and computed_from(
        product,
        lambda of: _is_partial(of, x.type.shape, dimensions),
        lambda of: of.name in ELEMENTWISE or of.name in _RESHAPES,
    )


def _is_partial(op: IrOp, sizes: Sequence[int], dimensions: Sequence[int]) -> bool:
    """Whether an op broadcasts along one of `dimensions`, but not along a later one of them, or is an outer product.

    `sizes` is the shape of the reduced array. If the op broadcasts to another shape, so that a reshape or transpose
    follows, the dimensions are unknown, and the answer is true unless the op repeats a single element.
    """
    if op.name == "stablehlo.dot_general":
        return _is_outer(op)
    if op.name not in _BROADCASTS:
        return False
    x = op.operands[0]
    if list(op.results[0].type.shape) != list(sizes):
        return bool(math.prod(x.type.shape) != 1)
    has = {d for d, n in zip(op.attributes["broadcast_dimensions"], x.type.shape, strict=True) if n != 1}
    return any(d not in has and not has.isdisjoint(dimensions[i:]) for i, d in enumerate(dimensions))


def _is_outer(op: IrOp) -> bool:
    """Whether a product contracts only dimensions of size 1, or none, so that it is an outer product."""
    return all(op.operands[0].type.shape[d] == 1 for d in Contraction.of(op).summed[0])
