"""Tuples: the tangent of a tuple is a Python tuple of tangents, so linear graphs contain no tuple ops."""

from typing import Any

from torch_mlir import ir

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.passes.rules.opset import linearize
from tiduc.passes.rules.registry import Tangents


@linearize("stablehlo.tuple")
def tuple_(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Any]:
    return [tuple(dx)]


@linearize("stablehlo.get_tuple_element")
def get_tuple_element(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value]:
    assert isinstance(dx[0], tuple)
    return [dx[0][ir.IntegerAttr(op.attributes["index"]).value]]
