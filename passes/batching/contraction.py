"""Contractions and convolutions: the batch becomes a free, batching, or grouped dimension."""

from collections.abc import Sequence
from typing import Any

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.graph import Definition
from tiduc.dialect.types import rank, shape
from tiduc.passes.batching.registry import emit_batched, results_of
from tiduc.passes.batching.shape import merged, moved_first, split_dimension, type_of
from tiduc.passes.batching.table import batch


@batch("stablehlo.dot_general")
def dot_general(b: Any, op: Definition, x: Sequence[Any], at: Sequence[bool]) -> Sequence[Any]:
    """Both operands batched: a batching dimension. One: a free dimension, moved to the front of the result."""
    d = hlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    sides = (
        (list(d.lhs_batching_dimensions), list(d.lhs_contracting_dimensions)),
        (list(d.rhs_batching_dimensions), list(d.rhs_contracting_dimensions)),
    )
    return [_contracted(b, op, x, at, sides)]


@batch("stablehlo.dot")
def dot(b: Any, op: Definition, x: Sequence[Any], at: Sequence[bool]) -> Sequence[Any]:
    return [_contracted(b, op, x, at, (([], [rank(op.operands[0]) - 1]), ([], [0])))]


def _contracted(
    b: Any, op: Definition, x: Sequence[Any], at: Sequence[bool], sides: Sequence[tuple[list[int], list[int]]]
) -> Any:
    shifted = [
        [[i + flag for i in numbers] for numbers in side] for side, flag in zip(sides, at, strict=True)
    ]
    sizes, k = shape(op.result), b.engine.size
    if all(at):
        for side in shifted:
            side[0].insert(0, 0)
        place = 0
    elif at[0]:
        place = len(sides[0][0])
    else:
        place = rank(op.operands[0]) - len(sides[0][1])
    numbers = hlo.DotDimensionNumbers.get(shifted[0][0], shifted[1][0], shifted[0][1], shifted[1][1])
    given = {name: op.attributes[name] for name in ("precision_config", "algorithm") if name in op.attributes}
    type_ = type_of(op.result, [*sizes[:place], k, *sizes[place:]])
    product = b.emit("stablehlo.dot_general", x, type_, {**given, "dot_dimension_numbers": numbers})
    return moved_first(b, product, place)


@batch("stablehlo.convolution")
def convolution(b: Any, op: Definition, x: Sequence[Any], at: Sequence[bool]) -> Sequence[Any]:
    """The batch goes into the images (lhs batched), the kernel's output features (rhs batched), or groups (both).

    Groups are contiguous: in a grouped dimension, the batch of one operand goes between the group and the
    rest. If both operands are batched, the groups of the batch go outside the existing groups.
    """
    n = hlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    features, images = (int(op.attributes[name].value) for name in _COUNTS)
    k, sizes = b.engine.size, shape(op.result)
    changed, place, groups = {}, n.output_feature_dimension, 1
    lhs, rhs = x
    if all(at):
        name = _COUNTS[int(images > 1)]
        changed[name] = _i64(k * (images if images > 1 else features))
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


def _i64(value: int) -> Any:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
