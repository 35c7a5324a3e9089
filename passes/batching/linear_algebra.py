"""Batching rules of custom calls, and of ops that work on the last dimensions and treat leading ones as batches."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch_mlir import ir

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.facts.lapack import BY_TARGET, targets
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.mlir.constants import dense
from tiduc.dialect.ops.attributes import named_attributes
from tiduc.dialect.ops.control_ops import CUSTOM_CALL
from tiduc.dialect.ops.shardy import CONSTRAINTS, PLACEMENT, TO_PARTS, TO_WHOLE
from tiduc.dialect.shapes.types import rank
from tiduc.passes.batching.registry import emit_batched, mapped, spread_all, unbatchable
from tiduc.passes.batching.table import batch, leading, refuse
from tiduc.passes.rules.opset import OPSET

leading("stablehlo.cholesky", "stablehlo.fft", "stablehlo.triangular_solve", "chlo.top_k")

FRONTEND, COUNT, SHARDING_RULE = "mhlo.frontend_attributes", "num_batch_dims", "sdy.sharding_rule"
_LAYOUTS = "operand_layouts", "result_layouts"
_SINGLE = targets("gtsv2", "tridiagonal_solve_perturbed", "pivots_to_permutation")
"""Targets of calls that accept no batch dimensions on at least one platform. A loop runs them once per example."""


def _called(b: StablehloBuilder, op: Definition, x: Sequence[Value], at: Sequence[bool]) -> Sequence[Value]:
    """Batches a call of a factorization or solver: emits one call on the matrices of all examples.

    If an operand is a scalar, emits a loop of calls instead. If the call has layouts, the batch dimension varies
    slowest in memory. The call's sharding rule is dropped, because it lists the dimensions of one example only.
    """
    changed: dict[str, Any] = {SHARDING_RULE: None, **_with_batch_dimension(op)}
    if any(not rank(v) for v in op.operands):
        return mapped(b, op, x, at)
    for name in _LAYOUTS:
        if name in op.attributes:
            changed[name] = ir.ArrayAttr.get([_layout(layout) for layout in op.attributes[name]])
    return emit_batched(b, op, spread_all(b, x, at), None, **changed)


def _with_batch_dimension(op: Definition) -> dict[str, Any]:
    """The call's frontend attributes with JAX's `num_batch_dims` increased by one; {} if this attribute is absent."""
    if FRONTEND not in op.attributes or COUNT not in (noted := ir.DictAttr(op.attributes[FRONTEND])):
        return {}
    notes = named_attributes(noted)
    notes[COUNT] = ir.StringAttr.get(str(int(notes[COUNT].value) + 1))
    return {FRONTEND: ir.DictAttr.get(notes)}


def _layout(layout: ir.DenseIntElementsAttr) -> Any:
    """The layout with a batch dimension that varies slowest. A layout lists dimensions from fastest to slowest."""
    order = np.array(layout).reshape(-1)
    type_ = ir.RankedTensorType.get([len(order) + 1], ir.ShapedType(layout.type).element_type)
    return dense(np.append(order + 1, 0).astype(np.int64), type_)


for _target in OPSET.called(CUSTOM_CALL):
    if _target in BY_TARGET and _target not in _SINGLE:
        batch(f"{CUSTOM_CALL} @{_target}")(_called)


def _constraint(
    b: StablehloBuilder, op: Definition, x: Sequence[Value], at: Sequence[bool]
) -> Sequence[Value]:
    """Drops a sharding constraint, because it lists the dimensions of one example only. Returns the operand."""
    return [x[0]]


for _target in (*CONSTRAINTS, PLACEMENT, "xla.sdy.FuncResultSharding"):
    batch(f"{CUSTOM_CALL} @{_target}")(_constraint)

_PARTS = (
    "SPMDFullToShardShape",
    "SPMDShardToFullShape",
    "xla.sdy.GlobalToLocalShape",
    "xla.sdy.LocalToGlobalShape",
)
refuse(
    "a conversion between an array and its shards cannot be batched",
    *(f"{CUSTOM_CALL} @{target}" for target in (TO_PARTS, TO_WHOLE, *_PARTS)),
)


@batch(CUSTOM_CALL)
def custom_call(
    b: StablehloBuilder, op: Definition, x: Sequence[Value], at: Sequence[bool]
) -> Sequence[Value]:
    """Runs an unknown call once per example, in a loop. Raises `Unsupported` if the call has side effects."""
    effect = op.attributes["has_side_effect"] if "has_side_effect" in op.attributes else None
    if effect is not None and effect.value:
        raise unbatchable(op, f"@{op.attributes['call_target_name'].value} has side effects")
    return mapped(b, op, x, at)
