"""The linearization of reduce and reduce_window. The rule for a result depends on how the body computes the result."""

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
"""Marks the results that have no rule of their own. They are linearized together by `whole`."""

ResultRule = Callable[[StablehloBuilder, Definition, int, Value | None, Value | None], Value]
"""(b, op, i, dx, dinit) -> dy: the tangent of result i; dx and dinit are those of its operand and initial value.

At most one of dx and dinit is None.
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
    """The tangents of a reduction's results. `dx` has the tangents of the operands, then those of the initial values.

    A function computes the tangent of each result: `total` of a sum, `extremum` of an extremum (it also receives the
    reducer's name), and `chosen` of an element that the body selects. Any other body is assumed to be associative;
    `whole(*operands)` then computes all results by ops that have rules. Raises `Unsupported` if a body is known not to
    be associative.
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
    """The tangents of a reduction whose body has other element types than its operands. None for any other reduction.

    The operands are converted before they are reduced.
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
    """For a reduction to sums, functions that return the cotangents of the operands and of the initial values.

    The linearize rules emit no other reductions.
    """
    count = len(op.results)
    if any(reducer(op, i) != "stablehlo.add" for i in range(count) if ct[i] is not None):
        raise unsupported("transpose", op, "its body must be a sum")
    return [None if ct[i] is None else partial(to, i) for to in (to_operand, to_init) for i in range(count)]
