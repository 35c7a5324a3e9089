"""select_and_scatter: linear in the source if it adds. Otherwise, it is linearized as a scatter to selected elements.

The derivative in the operand, which only selects positions, is zero. An active initial value enters each result once,
as in XLA. StableHLO's reference interpreter combines it once more for each source element.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.emitters.bodies import RegionBuilder, reducer, returned, self_contained
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.facts.windows import window_of
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.shapes.types import element, is_empty, rank, shape, with_shape
from tiduc.passes.rules.expansion import expanded
from tiduc.passes.rules.opset import linearize, transpose, unsupported
from tiduc.passes.rules.registry import Tangents
from tiduc.passes.rules.selection import repeated, selected, take_elements
from tiduc.passes.rules.tensor_body import of_tensors


@linearize("stablehlo.select_and_scatter")
def select_and_scatter(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value | None]:
    x, source, init = op.operands
    if not element(x) == element(source) == element(init) == element(op.result):
        raise unsupported("jvp", op, "its operands must have equal element types")
    empty = is_empty(x) or is_empty(source)
    if reducer(op, region=1) != "stablehlo.add" and not empty:
        return expanded(b, op.operands, dx, lambda *operands: [_scattered(b, op, *operands)])
    terms = [] if dx[2] is None else [repeated(b, dx[2], x)]
    if dx[1] is not None and not empty:
        terms.append(b.reapply(op, {1: dx[1], 2: b.zeros_like(init)})[0])
    return [b.sum(terms) if terms else None]


def _scattered(b: StablehloBuilder, op: Definition, x: Value, source: Value, init: Value) -> Value:
    """Scatters each source element into an array of initial values, at the position that its window selects."""
    if not self_contained(op):
        raise unsupported("jvp", op, "a region of it reads a value from outside")
    at = _selected(b, op)
    flat = b.broadcast_in_dim(init, [], [prod(shape(x))])
    indices = b.reshape(at, [*shape(at), 1])

    def fill(region: ir.Region) -> None:
        body = RegionBuilder(region, [init.type] * 2, b.location)
        body.returns(body.copy_of(op, 1, body.arguments)[returned(op, 1)[0]])

    numbers = hlo.ScatterDimensionNumbers.get([], [0], [], [], [0], rank(at))
    attributes = {"scatter_dimension_numbers": numbers}
    scatter = b.emit_all("stablehlo.scatter", (flat, indices, source), (flat.type,), attributes, [fill])
    return b.reshape(scatter[0], shape(x))


def _selected(b: StablehloBuilder, op: Definition) -> Value:
    """Returns the number of the element that each window selects, or the number of elements for an empty window."""
    x, in_body = op.operands[0], self_contained(op)

    def prefers(builder: Any, u: Any, v: Any) -> Any:
        if isinstance(builder, RegionBuilder):
            return builder.copy_of(op, 0, [u, v])[returned(op)[0]]
        return of_tensors(b, op, [u, v])[0]

    return selected(b, x, b.zero(with_shape(x.type, [])), window_of(op), prefers, in_body)[1]


@transpose("stablehlo.select_and_scatter")
def select_and_scatter_transpose(
    b: StablehloBuilder, op: Definition, ct: Tangents, active: Sequence[bool]
) -> list[Value | None]:
    """The cotangent of a source element is that of the result element that its window selects."""
    x, source, _ = op.operands
    if reducer(op, region=1) != "stablehlo.add" or active[0] or active[2]:
        raise unsupported("transpose", op, "only a sum is linear, in its source only")
    if is_empty(x) or is_empty(source):
        return [None, b.zeros_like(source), None]
    otherwise = b.zero(with_shape(x.type, [])) if window_of(op).may_be_empty(shape(x)) else None
    return [None, take_elements(b, ct[0], _selected(b, op), otherwise), None]
