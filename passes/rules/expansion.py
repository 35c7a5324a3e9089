"""Linearizes an op by expanding it into other ops that have rules."""

from collections.abc import Callable, Mapping, Sequence

from torch_mlir import ir

from tiduc.dialect.emitters.protocol import Fill
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Value
from tiduc.passes.rules.registry import Tangents


def expanded(
    b: StablehloBuilder, operands: Sequence[Value], dx: Tangents, build: Callable[..., Sequence[Value]]
) -> list[Value | None]:
    """Returns the tangents of the results of `build(*operands)`, given the tangents of the operands.

    `build` emits primal ops. Ops that no tangent reads are dead, and a later pass (`materialize_merge`) removes them.
    """
    before = len(b.graph.definitions)
    results = build(*operands)
    tangents = {x: tangent for x, tangent in zip(operands, dx, strict=True) if tangent is not None}
    outside = b.engine.tangent

    def tangent(x: Value) -> Value | None:
        return tangents.get(x) or (None if x in operands else outside(x))

    b.engine.tangent = tangent
    for op in b.graph.definitions[before:]:
        of_operands = [tangents.get(x) for x in op.operands]
        if any(x is not None for x in of_operands) and (rule := b.engine.rule(op)) is not None:
            for y, dy in zip(op.results, rule(b, op, of_operands), strict=True):
                if dy is not None:
                    tangents[y] = dy
    b.engine.tangent = outside
    return [tangents.get(y) for y in results]


def of_present(
    b: StablehloBuilder,
    name: str,
    values: Tangents,
    like: Sequence[Value],
    attributes: Mapping[str, ir.Attribute],
    *body: Fill,
) -> list[Value | None]:
    """Emits an op on the values that are not None, with results typed as in `like`. The other results are None."""
    at = [i for i, x in enumerate(values) if x is not None]
    types = [like[i].type for i in at]
    results = dict(zip(at, b.emit_all(name, [values[i] for i in at], types, attributes, body), strict=True))
    return [results.get(i) for i in range(len(values))]
