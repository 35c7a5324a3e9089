"""Checks that a user's linearize rule is linear in the tangents that it receives.

    b.multiply(dx[0], dx[1])     error: applies stablehlo.multiply to tangents in which it is not linear
    b.add(dx[0], x)              error: applies stablehlo.add to a tangent and to a value that is not a tangent
    b.multiply(x, dx[0])         linear, as the transpose rule of stablehlo.multiply says

Without this check, the JVP would be computed without an error, but the VJP would fail or disagree with the JVP.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from tiduc.dialect.emitters.builder import Builder
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.errors import UnknownSize, Unsupported
from tiduc.dialect.facts.identities import is_zeros
from tiduc.dialect.facts.matchers import splat
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.ops.control_ops import GRAPHS


class Rules(Protocol):
    """The part of an `OpSet` that the check reads."""

    @property
    def builder(self) -> type[Builder]: ...
    @property
    def transpose_rules(self) -> Mapping[str, object]: ...
    @property
    def complete(self) -> frozenset[str]: ...

    def key(self, op: Definition) -> str:
        """Returns the key of the op's rules."""

    def transpose_rule(self, op: Definition) -> Callable[..., Sequence[object]]:
        """Returns the op's transpose rule."""


def nonlinearity(
    opset: Rules,
    b: StablehloBuilder,
    emitted: Sequence[Definition],
    results: Sequence[Value | Callable[[], Value] | None],
) -> str | None:
    """Returns the reason why the results of a rule are not linear in the tangents, or None if they are linear.

    `emitted` are the ops that the rule emitted. An op is linear in its active operands if its transpose rule accepts
    them. An op without a transpose rule counts as linear, unless all linear ops of its dialect have one.
    """
    for op in emitted:
        if op.active is not None and GRAPHS not in op.attributes and not op.captures:
            if (reason := _of_op(b, opset, op)) is not None:
                return reason
    for i, y in enumerate(results):
        if y is not None and not callable(y) and not b.is_linear(y) and not _is_zero(y):
            return f"returns a value that does not depend on a tangent as entry {i}"
    return None


def _of_op(b: StablehloBuilder, opset: Rules, op: Definition) -> str | None:
    """Returns the reason why an op is not linear in its active operands, or None if it is (or has unknown sizes)."""
    if opset.key(op) not in opset.transpose_rules:
        is_known = op.name.partition(".")[0] in opset.complete
        return f"applies {op.name} to a tangent, which is not linear" if is_known else None
    active = tuple(op.active or ())
    try:
        if _transposed(b, opset, op, active) is None:
            return f"applies {op.name} to tangents in which it is not linear"
        for i, (x, flag) in enumerate(zip(op.operands, active, strict=True)):
            if flag or b.tangent_type(x.type) is None or _is_zero(x):
                continue
            cotangents = _transposed(b, opset, op, (*active[:i], True, *active[i + 1 :]))
            if cotangents is not None and cotangents[i] is not None:
                return f"applies {op.name} to a tangent and to a value that is not a tangent, which is not linear"
    except UnknownSize:
        pass
    return None


def _transposed(
    b: StablehloBuilder, opset: Rules, op: Definition, active: Sequence[bool]
) -> Sequence[object] | None:
    """Returns the cotangents of an op's operands, in a temporary graph, or None if the transpose rule refuses it."""
    scratch = opset.builder(b.view, b.view.fresh("L"))
    ct = [y if b.tangent_type(y.type) is not None else None for y in op.results]
    try:
        return opset.transpose_rule(op)(scratch, op, ct, active)
    except Unsupported:
        return None


def _is_zero(x: Value) -> bool:
    return is_zeros(x) or splat(x) == 0
