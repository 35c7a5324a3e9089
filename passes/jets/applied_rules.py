"""Applies linearize rules to placeholders of tangents. The emitted ops say how to compute the series of the results.

A rule gives dy = L(x, y) dx. The placeholder dx stands for one of two series, both computed from the series of x:

    derivative            x'(t) = x_1 + 2 x_2 t + ...          then dy stands for y'(t),              y_k = dy_{k-1} / k
    difference quotient   (x(t) - x_0) / t = x_1 + x_2 t + ... then dy stands for (y(t) - y_0) / t,   y_k = dy_{k-1}

The difference quotient needs no factors k and 1 / k, but is right only if f(x) - f(x_0) = L (x - x_0). There are two
such cases:

    constant    L depends on no value with a series: the op is linear along the curve
    solve       the op solves A y = b. Its rule is A dy = db - dA y, and for the quotients A_0 q(y) = q(b) - q(A) y,
                so y_k is a solve with A_0, whose right side reads y_0, ..., y_{k-1}

Source: Griewank, Walther, "Evaluating Derivatives" (2008), section 13.2 and table 13.1 (division).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from tiduc.dialect.graph.graph import Definition, Graph, Value
from tiduc.dialect.graph.view import View
from tiduc.dialect.ops.control_ops import CUSTOM_CALL
from tiduc.passes.batch import batch_closed
from tiduc.passes.engine.close import inline
from tiduc.passes.engine.split import split
from tiduc.passes.linearize import linearize
from tiduc.passes.rules.gtsv import TARGETS
from tiduc.passes.rules.lent import Linearizing
from tiduc.passes.rules.registry import OpSet

SOLVES = frozenset(
    {"stablehlo.divide", "stablehlo.triangular_solve", *(f"{CUSTOM_CALL} @{target}" for target in TARGETS)}
)
"""The keys of ops that solve an equation A y = b, where A y is bilinear in A and y."""


@dataclass(frozen=True)
class AppliedRule:
    """The ops that a linearize rule emitted, in a separate graph.

    `tangents` has the tangent of each result of the op, or None for a symbolic zero. The inputs of the graph are
    tangents; `placeholders` maps each input to the value whose tangent it is.
    """

    graph: Graph
    tangents: tuple[Value | None, ...]
    placeholders: dict[Value, Value]

    def reads_results(self, op: Definition) -> bool:
        """Whether the rule reads the op's results."""
        return any(not set(op.results).isdisjoint(emitted.reads) for emitted in self.graph.definitions)

    @property
    def inactive_reads(self) -> list[Value]:
        """The values that ops on placeholders read and that do not depend on placeholders."""
        return [x for op in self.graph.definitions if op.active is not None for x in inactive_reads(op)]


def inactive_reads(op: Definition) -> list[Value]:
    """The operands of an op that are not flagged as active, and the values that its regions capture."""
    flags = op.active or (False,) * len(op.operands)
    return [x for x, flag in zip(op.operands, flags, strict=True) if not flag] + list(op.captures)


def apply_rule(
    view: View, opset: OpSet, op: Definition, has_series: Callable[[Value], bool], name: str
) -> AppliedRule:
    """Applies the linearize rule of an op. The tangent of each value with a series is a placeholder.

    The rule's ops form a new graph called `name`. It is not added to the view; its ops are copied where needed.
    """
    b: Any = opset.builder(view, name)
    b.location = op.location
    placeholders: dict[Value, Value] = {}
    tangents: dict[Value, Value] = {}

    def tangent(x: Value) -> Value | None:
        if x not in tangents and has_series(x):
            key = f"{name}.{len(tangents)}"
            dx = tangents[x] = b.input(key, b.tangent_type(x.type), linear=True)
            placeholders[dx] = x
            b.graph.input_of = (*b.graph.input_of, x)
        return tangents.get(x)

    b.engine = Linearizing(
        partial(split, b, opset, linearize),
        partial(batch_closed, opset=opset),
        partial(inline, b),
        opset.linearize_rule,
        tangent,
        [op],
    )
    dx = list(map(tangent, op.reads))
    rule = opset.linearize_rule(op)
    assert rule is not None, "an inactive op has no series"
    if op.captures and op.name not in opset.capturing:
        if any(dx[len(op.operands) :]):
            raise opset.unsupported("jvp", op, "its region reads an active value from outside")
        del dx[len(op.operands) :]
    return AppliedRule(b.graph, tuple(rule(b, op, dx)), placeholders)


def solve_of(
    rule: AppliedRule, op: Definition, opset: OpSet, has_series: Callable[[Value], bool]
) -> Definition | None:
    """The last op that the rule of the solve `op` emitted, if it is a solve with the same matrix; else None."""
    if opset.key(op) not in SOLVES:
        return None
    ends = {dy.definition for dy in rule.tangents if dy is not None}
    end = ends.pop() if len(ends) == 1 else None
    if end is None or end.active is None or end.graph is not rule.graph or opset.key(end) != opset.key(op):
        return None
    is_same = all(
        x is own
        for x, own, flag in zip(end.operands, op.operands, end.active, strict=True)
        if not flag and has_series(x)
    )
    return end if is_same and not end.captures else None


def is_constant(rule: AppliedRule, has_series: Callable[[Value], bool]) -> bool:
    """Whether the ops on placeholders read no value with a series."""
    return not any(map(has_series, rule.inactive_reads))
