"""Batching rules of reductions, windowed ops, sorts and batch normalization.

The batched op has an additional dimension for the batch. It combines no elements along this dimension.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch_mlir import ir

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.mlir.constants import dense
from tiduc.dialect.ops.ir_types import Attributes
from tiduc.dialect.shapes.types import rank
from tiduc.passes.batching.registry import BatchRule, emit_batched, mapped, spread_all
from tiduc.passes.batching.shape import later, longer, next_
from tiduc.passes.batching.table import batch

_WINDOW = "window_dimensions", "window_strides", "base_dilations", "window_dilations"


def _reducing(arrays: int, changed: Callable[[Definition], Attributes]) -> BatchRule:
    """Makes the rule of an op whose first `arrays` operands may be batched; 0 means as many as the op has results.

    `changed(op)` returns the attributes of the batched op that differ from those of `op`. If any other operand (such as
    an initial value) or a captured value is batched, the rule emits a loop over the examples.
    """

    def rule(b: StablehloBuilder, op: Definition, x: Sequence[Value], at: Sequence[bool]) -> Sequence[Value]:
        count = arrays or len(op.results)
        if any(at[count:]):
            return mapped(b, op, x, at)
        operands = [*spread_all(b, x[:count], at[:count]), *x[count:]]
        return emit_batched(b, op, operands, None, **changed(op))

    return rule


def _reduce(op: Definition) -> dict[str, ir.DenseI64ArrayAttr]:
    return {"dimensions": later(op.attributes["dimensions"])}


def _windows(op: Definition) -> dict[str, Any]:
    """The window attributes of the op, with a window of size one along the batch dimension."""
    changed = {name: longer(op.attributes[name], 1) for name in _WINDOW if name in op.attributes}
    if "padding" in op.attributes:
        padding = op.attributes["padding"]
        rows = np.array(padding).reshape(padding.type.shape)
        type_ = ir.RankedTensorType.get([len(rows) + 1, 2], padding.type.element_type)
        changed["padding"] = dense(np.concatenate([np.zeros((1, 2), rows.dtype), rows]), type_)
    return changed


def _sort(op: Definition) -> dict[str, ir.IntegerAttr]:
    """The attribute `dimension` plus one. {} if it is absent, or if it is negative and so counts from the end."""
    if "dimension" not in op.attributes:
        return {}
    return {} if op.attributes["dimension"].value < 0 else {"dimension": next_(op.attributes["dimension"])}


batch("stablehlo.reduce")(_reducing(0, _reduce))
batch("stablehlo.reduce_window")(_reducing(0, _windows))
batch("stablehlo.select_and_scatter")(_reducing(2, _windows))
batch("stablehlo.sort")(_reducing(0, _sort))


@batch("stablehlo.batch_norm_inference")
def batch_norm_inference(
    b: StablehloBuilder, op: Definition, x: Sequence[Value], at: Sequence[bool]
) -> Sequence[Value]:
    """Adds a dimension for the batch if only the operand is batched.

    Emits a loop over the examples if the scale, offset, mean or variance is batched, because these cannot have a batch
    dimension. Also emits a loop if the operand has rank 0.
    """
    if any(at[1:]) or rank(op.operands[0]) == 0:
        return mapped(b, op, x, at)
    return emit_batched(b, op, x, feature_index=next_(op.attributes["feature_index"]))
