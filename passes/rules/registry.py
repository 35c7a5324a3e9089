"""The rule tables of an op set, and the functions that declare the rules of an op. This module names no op.

    inactive(*names)                    declares ops whose derivative is zero wherever it exists
    elementwise(name, *partials)        takes d result / d operand, one function per operand
    @linear(name, operands)             for an op jointly linear in these operands; decorates the transpose
    @bilinear(name)                     for an op linear in each operand alone; decorates the transpose toward `side`
    @linearize(name)  @transpose(name)  decorate rules written by hand, if no function above fits
    @lowering(name)                     decorates the expansion of an op that no compiler knows into executable ops

The other rules of an op follow from its declaration. A linear op linearizes to itself, and a bilinear op by the product
rule. An elementwise op linearizes to products of its partials with the tangents, so it needs no transpose rule.

An op that names a callee, such as a custom call, can have one rule per callee, declared for `"OP @NAME"`; that rule
takes precedence over a rule for `"OP"`. An op set can be `extended` with further rules; the original op set does not
change.

The rules of an op, as formulas, for y = f(x):

    linearize   (b, op, dx) -> dy      dy_j = sum_i df_j/dx_i dx_i        None: a symbolic zero
    transpose   (b, op, ct, active) -> cx, where <ct, f(dx)> = <cx, dx>   under <a, b> = Re(sum conj(a) b)
    lowering    (b, op, x...) -> y

Rules that users register are guarded (`passes/rules/guard.py`): their exceptions become diagnostics, and they may not
return None for a symbolic zero.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import partial
from typing import Any, TypeVar

from torch_mlir import ir

from tiduc.dialect.emitters.builder import Builder
from tiduc.dialect.errors import Unsupported
from tiduc.dialect.facts.identities import Identity
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.ops.ir_types import AnyOp
from tiduc.dialect.shapes.types import element, is_empty
from tiduc.passes.rules.guard import (
    guarded,
    of_linear,
    of_linearize,
    of_lowering,
    of_partial,
    of_side,
    of_transpose,
)
from tiduc.passes.rules.linearity import nonlinearity

Tangents = Sequence[Any]
"""The tangents of an op's operands, or the cotangents of its results; None for a symbolic zero.

At least one of them is a value when a rule is called, so a rule with a single operand need not test it.
"""

LinearizeRule = Callable[[Any, Definition, Tangents], Sequence[Value | None]]
TransposeRule = Callable[[Any, Definition, Tangents, Sequence[bool]], Sequence[Any]]
"""Each entry of the result is a value, None, or a function that returns either and is called for active operands only.
"""
Recognised = Callable[[Any, Definition], Sequence[Value | None] | None]
Parts = Callable[[Definition, Callable[[Value], bool]], object | None]
Lowering = Callable[..., Any]

Partial = Callable[..., Value | None]
"""(b, operands..., result) -> d result / d operand, or None for zero."""

F = TypeVar("F", bound=Callable[..., object])
"""The transpose rule that a decorator takes and returns."""


@dataclass(frozen=True, repr=False)
class OpSet:
    """The ops of some dialects: their rules by full op name, and the builder that emits the ops.

    Ops in `stateful` are never merged. The operands of an op in `commutative` may be exchanged. For an op that names a
    callee, `named_by` has the name OP of its rule keys "OP @NAME", and the attribute that holds NAME (or an array of
    one name). All ops of a dialect in `complete` are declared.
    """

    builder: type[Builder]
    stateful: frozenset[str] = frozenset()
    commutative: frozenset[str] = frozenset()
    named_by: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    identities: Mapping[str, Identity] = field(default_factory=dict)
    linearize_rules: dict[str, LinearizeRule] = field(default_factory=dict)
    transpose_rules: dict[str, TransposeRule] = field(default_factory=dict)
    inactive_ops: set[str] = field(default_factory=set)
    refused_ops: dict[str, str] = field(default_factory=dict)
    forms: dict[str, str] = field(default_factory=dict)
    capturing: set[str] = field(default_factory=set)
    exceptions: dict[str, Parts] = field(default_factory=dict)
    inherited: set[str] = field(default_factory=set)  # names that may be declared once more
    lowerings: dict[str, Lowering] = field(default_factory=dict)
    dialects: set[str] = field(default_factory=set)  # the dialects of the declared ops
    callees: dict[str, tuple[str, ...]] = field(default_factory=dict)  # maps OP to each NAME of "OP @NAME"
    complete: frozenset[str] = frozenset()
    known: frozenset[str] = frozenset()  # names of the ops that the original op set declares

    def extended(self) -> "OpSet":
        """Returns a copy of this op set in which each op may be declared once more. This op set does not change."""
        return replace(
            self,
            linearize_rules=dict(self.linearize_rules),
            transpose_rules=dict(self.transpose_rules),
            inactive_ops=set(self.inactive_ops),
            refused_ops=dict(self.refused_ops),
            forms=dict(self.forms),
            capturing=set(self.capturing),
            exceptions=dict(self.exceptions),
            inherited=set(self.forms),
            lowerings=dict(self.lowerings),
            dialects=set(self.dialects),
            callees=dict(self.callees),
            known=self.known or frozenset(name.partition(" @")[0] for name in self.forms),
        )

    def __repr__(self) -> str:
        return f"<OpSet of {len(self.forms)} ops of {', '.join(sorted(self.dialects))}>"

    # ---- declaring rules ---------------------------------------------------------------------------------------

    def inactive(self, *names: str) -> None:
        """Declares ops whose derivative is zero: the results are integers, or locally constant in the operands."""
        for name in names:
            self._declare(name, "inactive")
            self.inactive_ops.add(name)

    def refuse(self, reason: str, *names: str) -> None:
        """Declares ops that have no rule, with the reason that the diagnostic prints."""
        for name in names:
            self._declare(name, "refused")
            self.refused_ops[name] = reason

    def elementwise(self, name: str, *partials: Partial | None) -> None:
        """Declares an elementwise op by its partial derivatives, one per operand.

        A partial derivative is a function (b, operands..., result) -> d result / d operand, or None if it is zero.
        """
        if not partials:
            raise TypeError(
                "elementwise is not a decorator; it takes a name and one function for each operand"
            )
        self._declare(name, "elementwise")
        coefficients = [f if f is None else guarded(f, name, of_partial) for f in partials]

        def rule(b: Builder, op: Definition, dx: Tangents) -> Sequence[Any | None]:
            if len(dx) != len(coefficients):
                given = f"its rule has {len(coefficients)} partial derivatives for {len(dx)} operands"
                raise self.unsupported("jvp", op, given)
            terms = []
            for slope, tangent in zip(coefficients, dx, strict=True):
                if tangent is not None and slope is not None:
                    coefficient = slope(b, *op.operands, *op.results)
                    if coefficient is not None:  # built-in partial derivatives may return None for zero
                        terms.append(b.multiply(coefficient, tangent))
            return [b.sum(terms) if terms else None]

        self.linearize_rules[name] = rule

    def linear(self, name: str, operands: Sequence[int]) -> Callable[[F], F]:
        """Declares an op that is jointly linear in `operands`. Decorates its transpose (b, op, ct)."""
        self._declare(name, "linear")

        def rule(b: Builder, op: Definition, dx: Tangents) -> Sequence[Any | None]:
            tangents = {
                i: b.zeros_like(op.operands[i]) if dx[i] is None else dx[i] for i in operands if i < len(dx)
            }
            return b.reapply(op, tangents)

        def decorate(transpose: F) -> F:
            transposed = guarded(transpose, name, of_linear(operands), symbolic=True)
            self.linearize_rules[name] = rule
            self.transpose_rules[name] = lambda b, op, ct, active: transposed(b, op, ct[0])
            return transpose

        return decorate

    def bilinear(
        self, name: str, recognised: Recognised | None = None, parts: Parts | None = None
    ) -> Callable[[F], F]:
        """Declares an op that is linear in each of two operands. Decorates the transpose (b, op, ct, side).

        The transpose returns the cotangent of the operand number `side`. `recognised(b, op)` returns the tangents if
        the product rule would give infinities or NaN for this op, else None. Taylor mode calls `parts(op, f)` instead,
        where f(x) says whether x has a tangent. `parts` returns None for the same ops.
        """
        self._declare(name, "bilinear")
        if parts is not None:
            self.exceptions[name] = parts

        def rule(b: Builder, op: Definition, dx: Tangents) -> Sequence[Any | None]:
            if recognised is not None and (tangents := recognised(b, op)) is not None:
                return tangents
            if b.tangent_type(op.result.type) is None:  # floats may multiply to a result of another type
                return [None]
            terms = [b.reapply(op, {i: tangent})[0] for i, tangent in enumerate(dx) if tangent is not None]
            return [terms[0] if len(terms) == 1 else b.sum(terms)]

        def decorate(transpose: F) -> F:
            toward = guarded(transpose, name, of_side, symbolic=True)

            def rule_of_side(
                b: Builder, op: Definition, ct: Tangents, active: Sequence[bool]
            ) -> Sequence[Value | None]:
                if all(active):
                    raise self.unsupported("transpose", op, "a product of two active values is not linear")
                return [toward(b, op, ct[0], 0), None] if active[0] else [None, toward(b, op, ct[0], 1)]

            self.linearize_rules[name] = rule
            self.transpose_rules[name] = rule_of_side
            return transpose

        return decorate

    def linearize(self, name: str, captures: bool = False) -> Callable[[LinearizeRule], LinearizeRule]:
        """Decorates a linearize rule written by hand.

        The rule receives the tangents of the operands. With `captures`, it also receives those of the values that the
        op's regions capture. Without `captures`, an op that captures an active value is refused.
        """
        self._declare(name, "by hand")
        if captures:
            self.capturing.add(name)

        def decorate(rule: LinearizeRule) -> LinearizeRule:
            self.linearize_rules[name] = guarded(rule, name, of_linearize, True, partial(nonlinearity, self))
            return rule

        return decorate

    def transpose(self, name: str) -> Callable[[TransposeRule], TransposeRule]:
        """Decorates a transpose rule written by hand. Raises `ValueError` if the op already has a transpose rule."""
        self._check_name(name)
        if name in self.transpose_rules and name not in self.inherited:
            raise ValueError(f"{name} already has a transpose rule")

        def decorate(rule: TransposeRule) -> TransposeRule:
            self.transpose_rules[name] = guarded(rule, name, of_transpose, symbolic=True)
            return rule

        return decorate

    def lowering(self, name: str) -> Callable[[Lowering], Lowering]:
        """Decorates a function (b, op, operands...) -> results that expands the op before it is compiled.

        The function may emit ops of StableHLO and CHLO, and ops that have a lowering themselves.
        """
        self._check_name(name)

        def decorate(function: Lowering) -> Lowering:
            self.lowerings[name] = guarded(function, name, of_lowering)
            self.dialects.add(name.partition(".")[0])
            return function

        return decorate

    def _check_name(self, name: str) -> None:
        if not isinstance(name, str):
            raise TypeError(f"a rule needs the name of its op, such as 'foreign.op', but it has {name!r}")
        op = name.partition(" @")[0]
        if self.known and op.partition(".")[0] in self.complete and op not in self.known:
            raise ValueError(f"there is no op {op}{_meant(op, self.known)}")

    def _declare(self, name: str, form: str) -> None:
        self._check_name(name)
        if name in self.inherited:
            self.inherited.remove(name)
            self.inactive_ops.discard(name)
            for table in (self.linearize_rules, self.transpose_rules, self.refused_ops, self.exceptions):
                table.pop(name, None)
        elif name in self.forms:
            raise ValueError(f"{name} is declared twice: {self.forms[name]}, {form}")
        self.forms[name] = form
        self.dialects.add(name.partition(".")[0])
        op, _, callee = name.partition(" @")
        if callee and callee not in self.called(op):
            self.callees[op] = (*self.called(op), callee)

    # ---- finding the rules of an op ---------------------------------------------------------------------------

    def key(self, op: AnyOp) -> str:
        """Returns the key of the op's rules: "OP @NAME" if rules are declared for it, else the op's name."""
        named = self.named_by.get(op.name)
        if named is None:
            return op.name
        name, attribute = named
        callee = op.attributes[attribute]
        key = f"{name} @{(callee if hasattr(callee, 'value') else callee[0]).value}"
        return key if key in self.forms or key in self.lowerings else op.name

    def called(self, name: str) -> tuple[str, ...]:
        """Returns the names NAME for which rules are declared as "OP @NAME", given the name OP."""
        return self.callees.get(name, ())

    def linearize_rule(self, op: Definition) -> LinearizeRule | None:
        """Returns the op's linearize rule, or None if the op is inactive. Raises `Unsupported` if the op has no rule.

        An op is also inactive if all results are empty or integers, and at least one is empty. Rules therefore need not
        handle empty results.
        """
        if any(map(_is_empty, op.results)) and all(map(_has_no_tangent, op.results)):
            return None
        key = op.name if op.name not in self.named_by else self.key(op)
        rule = self.linearize_rules.get(key)
        if rule is None and key not in self.inactive_ops:
            raise self.unsupported("jvp", op)
        return rule

    def transpose_rule(self, op: Definition) -> TransposeRule:
        """Returns the op's transpose rule. Raises `Unsupported` if the op has none."""
        rule = self.transpose_rules.get(op.name if op.name not in self.named_by else self.key(op))
        if rule is None:
            raise self.unsupported("transpose", op)
        return rule

    def unsupported(self, rule: str, op: Definition, reason: str | None = None) -> Unsupported:
        """Returns an `Unsupported` error that states the missing rule, the op, its location, and the reason."""
        key = self.key(op)
        reason = reason or self.refused_ops.get(key)
        if reason is None and key not in self.forms:
            reason = _meant(key, self.forms)[2:]
        return Unsupported(
            f"unsupported {rule} AD rule for {key}" + (f": {reason}" if reason else ""), op.location
        )


def _is_empty(y: Value) -> bool:
    return isinstance(y.type, ir.RankedTensorType) and is_empty(y)


def _has_no_tangent(y: Value) -> bool:
    """Whether a result is an empty tensor or a tensor of integers."""
    return _is_empty(y) or (
        isinstance(y.type, ir.RankedTensorType) and isinstance(element(y), ir.IntegerType)
    )


def _meant(name: str, names: Iterable[str]) -> str:
    """Returns the end of an error message, which suggests the most similar names, or "" if no name is similar."""
    matches = get_close_matches(name, names, 3, 0.8)
    return f"; did you mean {' or '.join(matches)}?" if matches else ""
