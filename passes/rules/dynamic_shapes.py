"""Ops whose shapes are operands: as the static ops beside them, but what they take is computed when they run."""

from typing import Any

from tiduc.dialect.graph import Definition
from tiduc.dialect.origins import entries
from tiduc.dialect.types import shape
from tiduc.passes.rules.opset import linear
from tiduc.passes.rules.shape import unbroadcast, unpadded, unsliced


@linear("stablehlo.dynamic_broadcast_in_dim", [0])
def dynamic_broadcast_in_dim(b: Any, op: Definition, ct: Any) -> list[Any]:
    """Sum over the dimensions that are new or were of size 1; put the others in the operand's order."""
    still, more = (
        list(op.attributes[name]) if name in op.attributes else []
        for name in ("known_nonexpanding_dimensions", "known_expanding_dimensions")
    )
    return [
        unbroadcast(b, ct, op.operands[0], list(op.attributes["broadcast_dimensions"]), still, more),
        None,
    ]


@linear("stablehlo.dynamic_reshape", [0])
def dynamic_reshape(b: Any, op: Definition, ct: Any) -> list[Any]:
    return [b.reshape(ct, shape(op.operands[0])), None]


@linear("stablehlo.dynamic_pad", [0, 1])
def dynamic_pad(b: Any, op: Definition, ct: Any) -> list[Any]:
    return [*unpadded(b, op, ct, *map(entries, op.operands[2:])), None, None, None]


@linear("stablehlo.real_dynamic_slice", [0])
def real_dynamic_slice(b: Any, op: Definition, ct: Any) -> list[Any]:
    x, start, _, strides = op.operands
    return [unsliced(b, x, ct, entries(start), entries(strides)), None, None, None]
