"""Linearizes reduce and reduce_window. The rule of each result depends on how the body computes this result."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tiduc.dialect.emitters.bodies import reducer, self_contained
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.ops.traits import ASSOCIATIVE
from tiduc.dialect.shapes.types import element
from tiduc.passes.rules.expansion import expanded
from tiduc.passes.rules.opset import unsupported
from tiduc.passes.rules.registry import Tangents
from tiduc.passes.rules.selection import EXTREMA, selects

_WHOLE = "whole"
"""Stands for the rule of a result that has none of its own. Such results are linearized together by `whole`."""

ResultRule = Callable[[StablehloBuilder, Definition, int, Value | None, Value | None], Value]
"""(b, op, i, dx, dinit) -> dy: the tangent of result i. dx and dinit are those of its operand and initial value.

At most one of dx and dinit is None, a symbolic zero.
"""

ExtremumRule = Callable[[StablehloBuilder, Definition, int, str, Value | None, Value | None], Value | None]
"""(b, op, i, name, dx, dinit) -> dy: like `ResultRule`, with the name of the reducer."""


def linearize_by_body(
    b: StablehloBuilder,
    op: Definition,
    dx: Tangents,
    *,
    total: ResultRule,
    extremum: ExtremumRule,
    chosen: ResultRule,
    whole: Callable[..., Sequence[Value]],
) -> list[Any]:
    """Returns the tangents of a reduction's results. `dx` lists the tangents of the arrays, then of the initial values.

    If a result is a sum, its tangent is computed by `total`; if it is an extremum, by `extremum`; and if the body
    selects one element, by `chosen`. Any other body is assumed to be associative; `whole(*operands)` then computes all
    results by ops that have rules. Raises `Unsupported` if a body is known not to be associative.
    """
    if (dy := _promoted(b, op, dx)) is not None:
        return dy

    def rule(i: int) -> Any:
        if b.tangent_type(op.results[i].type) is None:
            return None
        name = reducer(op, i)
        if name == "stablehlo.add":
            return partial(total, b, op, i)
        if name in EXTREMA:
            return partial(extremum, b, op, i, name)
        if selects(op, i) and self_contained(op):
            return partial(chosen, b, op, i)
        if name is not None and name not in ASSOCIATIVE:
            raise unsupported("jvp", op, f"its body is one {name}, which is not associative")
        return _WHOLE

    count = len(op.results)
    rules = [rule(i) for i in range(count)]
    together = expanded(b, op.operands, dx, whole) if _WHOLE in rules else [None] * count
    return [
        dy if own is _WHOLE else None if (x is None and init is None) or own is None else own(x, init)
        for own, dy, x, init in zip(rules, together, dx[:count], dx[count:], strict=True)
    ]


def _promoted(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Any] | None:
    """Returns the tangents of a reduction whose body has other element types than its operands, or None for another.

    The reduction is linearized as a conversion of the operands, and a reduction of the converted operands.
    """
    wide = [element(x) for x in op.regions[0].blocks[0].arguments]
    if all(element(x) == e for x, e in zip(op.operands, wide, strict=True)):
        return None

    def build(*operands: Value) -> Sequence[Value]:
        return b.reapply(op, {i: b.convert(x, wide[i]) for i, x in enumerate(operands)})

    return expanded(b, op.operands, dx, build)


def transpose_of_sums(
    op: Definition, ct: Tangents, to_operand: Callable[[int], Value | None], to_init: Callable[[int], Value]
) -> list[Any]:
    """Returns functions that compute the cotangents of the operands and initial values of a reduction to sums.

    Raises `Unsupported` for another reduction, which the linearize rules never emit.
    """
    count = len(op.results)
    if any(reducer(op, i) != "stablehlo.add" for i in range(count) if ct[i] is not None):
        raise unsupported("transpose", op, "its body must be a sum")
    return [None if ct[i] is None else partial(to, i) for to in (to_operand, to_init) for i in range(count)]
