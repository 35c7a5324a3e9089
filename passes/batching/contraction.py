"""Batching rules of contractions and convolutions. The batch becomes a free, batching or grouped dimension."""

from collections.abc import Sequence

from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.ops.attributes import present
from tiduc.dialect.ops.contractions import NUMBERS, Contraction
from tiduc.dialect.shapes.types import i64, rank, shape
from tiduc.passes.batching.registry import emit_batched, results_of
from tiduc.passes.batching.shape import merged, moved_first, split_dimension, type_of
from tiduc.passes.batching.table import batch


@batch("stablehlo.dot")
@batch("stablehlo.dot_general")
def dot_general(
    b: StablehloBuilder, op: Definition, x: Sequence[Value], at: Sequence[bool]
) -> Sequence[Value]:
    """Batches a `dot_general` or `dot`. If both operands are batched, the batch becomes a batching dimension.

    If only one operand is batched, the batch becomes a free dimension of the product, which is then moved to the front.
    """
    d = Contraction.of(op)
    batches, summed = (
        [[i + flag for i in own] for own, flag in zip(pair, at, strict=True)]
        for pair in (d.batches, d.summed)
    )
    sizes, k = shape(op.result), b.engine.size
    if all(at):
        batches, place = [[0, *own] for own in batches], 0
    elif at[0]:
        place = len(batches[0])
    else:
        place = rank(op.operands[0]) - len(summed[0])
    numbers = Contraction.new(batches, summed).attribute
    given = present(op.attributes, "precision_config", "algorithm")
    type_ = type_of(op.result, [*sizes[:place], k, *sizes[place:]])
    product = b.emit("stablehlo.dot_general", x, type_, {**given, NUMBERS: numbers})
    return [moved_first(b, product, place)]


@batch("stablehlo.convolution")
def convolution(
    b: StablehloBuilder, op: Definition, x: Sequence[Value], at: Sequence[bool]
) -> Sequence[Value]:
    """Batches a convolution. The batch is merged into the images if only lhs is batched, and into the output features
    if only rhs is batched. If both are batched, there are k times as many groups.

    Groups are contiguous. If only one operand is batched, a dimension of g groups of m elements becomes one of g groups
    of k m elements. If both are batched, each example has its own g groups, so there are k g groups of m elements.
    """
    n = hlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    features, images = (int(op.attributes[name].value) for name in _COUNTS)
    k, sizes = b.engine.size, shape(op.result)
    changed, place, groups = {}, n.output_feature_dimension, 1
    lhs, rhs = x
    if all(at):
        name = _COUNTS[int(images > 1)]
        changed[name] = i64(k * (images if images > 1 else features))
        lhs = merged(b, lhs, n.input_batch_dimension if images > 1 else n.input_feature_dimension)
        rhs = merged(b, rhs, n.kernel_output_feature_dimension)
    elif at[0]:
        lhs = merged(b, lhs, n.input_batch_dimension, images)
        place = n.output_batch_dimension
    else:
        groups = features * images
        rhs = merged(b, rhs, n.kernel_output_feature_dimension, groups)
    sizes[place] *= k
    (y,) = emit_batched(b, op, [lhs, rhs], [type_of(op.result, sizes)], **changed)
    split = split_dimension(b, y, place, groups)
    assert [split.type] == results_of(b, op)
    return [split]


_COUNTS = "feature_group_count", "batch_group_count"
