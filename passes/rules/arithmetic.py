"""Ops that are linear in their operands, or in each of them."""

from typing import Any

from tiduc.dialect.graph import Definition
from tiduc.passes.rules.opset import bilinear, linearize, transpose
from tiduc.passes.rules.registry import Tangents


@linearize("stablehlo.add")  # by hand: one tangent alone needs no add
def add(b: Any, op: Definition, dx: Tangents) -> list[Any]:
    return [b.sum(tangent for tangent in dx if tangent is not None)]


@transpose("stablehlo.add")
def add_transpose(b: Any, op: Definition, ct: Tangents, active: list[bool]) -> list[Any]:
    return [ct[0], ct[0]]


@bilinear("stablehlo.multiply")
def multiply(b: Any, op: Definition, ct: Any, side: int) -> Any:
    return b.multiply(b.conj(op.operands[1 - side]), ct)
