"""Taylor series of values: x(t) = x_0 + x_1 t + ... + x_K t^K, propagated op by op.

    bilinear op       (a b)_k = sum over i = 0..k of a_i b_{k-i}          (Leibniz' rule)
    any other op      by its linearize rule (`applied_rules.py`), which gives y_k from coefficients of lower orders

A linearize rule gives y' = L(x, y) x'. The rule runs once, on placeholders. The series of the emitted ops are computed
in the same way. y_k needs them up to order k - 1, so the recursion ends: the rule of a sine reads a cosine of one order
less, and the rule of the cosine reads the sine. Equal ops share one series.

Source: Griewank, Walther, "Evaluating Derivatives" (2008), chapter 13.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tiduc.dialect.control.control import is_control, only_vjp
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.errors import UnknownSize
from tiduc.dialect.graph.graph import Definition, Graph, Value
from tiduc.dialect.graph.tuples import part
from tiduc.dialect.graph.view import BINDING, View
from tiduc.dialect.ops.control_ops import CALL, CALL_VJP, DERIVATIVES, GRAPHS
from tiduc.dialect.shapes.types import is_dynamic
from tiduc.passes.jets.applied_rules import AppliedRule, apply_rule, is_constant, solve_of
from tiduc.passes.jets.recurrences import recurrence
from tiduc.passes.rules.registry import OpSet

Coefficients = list[Any | None]
"""Taylor coefficients by order, from 0; None for a zero. The coefficient of order 0 is usually the value itself."""
Step = Callable[[Definition, int], None]
"""A function that computes the coefficients of an op's results up to an order."""


class Series:
    """The Taylor series of values. `extend` computes them on request.

    `given` has the coefficients of the variables, up to the order of the jet. `b` builds the graph of the coefficients.
    `control` computes the series of the results of a control-flow op. `limits` has, for each value, the highest order
    whose coefficient may be nonzero. A value has a series if its limit is not 0.
    """

    def __init__(
        self,
        view: View,
        opset: OpSet,
        b: StablehloBuilder,
        given: Mapping[Value, Sequence[Value | None]],
        control: Callable[["Series", Definition, int], None],
    ) -> None:
        self.view, self.opset, self.b, self.control = view, opset, b, control
        self.coefficients: dict[Value, Coefficients] = {x: list(c) for x, c in given.items()}
        self.limits: dict[Value, int] = {x: len(c) - 1 for x, c in given.items()}
        self._steps: dict[Definition, Step] = {}
        self._rule_graphs: set[Graph] = set()
        self._sources: dict[
            Value, tuple[Value, bool]
        ] = {}  # the value of each placeholder, and whether the placeholder stands for its derivative
        self._shared: dict[Any, Coefficients] = {}  # coefficients of placeholders
        self._equal: dict[Any, Definition] = {}

    # ---- these methods return coefficients, or compute missing ones ------------------------------------------

    def has_series(self, x: Value) -> bool:
        """Whether a value may have a nonzero coefficient of an order above 0."""
        if x not in self.limits:
            self.extend([x], 0)
        return self.limits[x] > 0

    def at(self, x: Value, order: int) -> Value | None:
        """A coefficient that `extend` has computed; None for a zero."""
        found = self.coefficients[x]
        return found[order] if order < len(found) else None

    def dense(self, x: Value, order: int) -> Value:
        """A coefficient that `extend` has computed, as an explicit value even if it is zero."""
        found = self.at(x, order)
        if found is not None:
            return found
        like = self.at(x, 0)  # a value with the sizes, if x has dynamic dimensions
        return self.b.zero(x.type) if like is None else self.b.zeros_like(like)

    def extend(self, values: Sequence[Value], order: int) -> None:
        """Computes the coefficients of values up to an order, or up to their limits.

        Visits the graph with an explicit stack, because recursion would be too deep.
        """
        stack = list(values)
        while stack:
            x = stack[-1]
            if self._is_known(x, order):
                stack.pop()
                continue
            op = x.definition
            if op is None:
                self._extend_input(x, order)
                continue
            missing = [y for y in _reads(op) if not self._is_known(y, order)]
            if missing:
                stack += missing
                continue
            stack.pop()
            self._advance(op, order)

    def _is_known(self, x: Value, order: int) -> bool:
        limit = self.limits.get(x)
        return limit is not None and min(order, limit) < len(self.coefficients[x])

    def _extend_input(self, x: Value, order: int) -> None:
        if x not in self._sources:  # an input that is not differentiated
            self.limits[x], self.coefficients[x] = 0, [x]
            return
        source, is_derivative = self._sources[x]
        found, last = self.coefficients[x], min(order, self.limits[x])
        self.extend([source], last + 1)
        for k in range(len(found), last + 1):
            value = self.at(source, k + 1)
            # Zeros of higher orders get their sizes from this value.
            if value is None and not k and is_dynamic(x.type):
                value = self.dense(source, k + 1)
            found.append(self._scaled(value, k + 1) if is_derivative else value)

    def _scaled(self, x: Value | None, factor: float) -> Value | None:
        if x is None or factor == 1:
            return x
        return self.b.multiply(self.b.constant(factor, x), x)

    # ---- the series of an op is computed by a step, which is chosen once -------------------------------------

    def _advance(self, op: Definition, order: int) -> None:
        outside, self.b.location = self.b.location, op.location
        try:
            step = self._steps.get(op)
            if step is None:
                step = self._steps[op] = self._step(op)
            step(op, order)
        except UnknownSize as error:
            raise self.opset.unsupported("jvp", op, error.message) from None
        self.b.location = outside

    def _step(self, op: Definition) -> Step:
        """Returns the function that computes the series of an op's results. Sets the limits of the results.

        Also sets the coefficients of order 0, except for control flow.
        """
        if op.name == BINDING or part(op) is not None:
            return self._shares(op, _reads(op))
        if op.name == CALL_VJP:
            raise only_vjp(op)
        limits = [self.limits[x] for x in op.reads if self.limits[x]]
        is_constant = not limits or self.opset.linearize_rule(op) is None
        same = self._earlier_equal(op) if op.graph in self._rule_graphs or not is_constant else None
        if same is not None:
            step = self._shares(op, same.results, same)
            if op.graph not in self._rule_graphs and not self._is_moved(op):
                for y in op.results:
                    self.coefficients[y][0] = y
            return step
        for y in op.results:
            has_tangent = self.b.tangent_type(y.type) is not None
            self.limits[y] = 0 if is_constant or not has_tangent else min(limits)
        if not is_constant and is_control(op) and not _has_own_derivative(self.view, op):
            return lambda op, order: self.control(self, op, order)
        self.copy_results(op)
        if is_constant:
            return _nothing
        if op.graph in self._rule_graphs and self._is_linear(op):
            return self._linear
        if self.opset.forms.get(self.opset.key(op)) == "bilinear" and not self._is_recognised(op):
            return self._bilinear
        by_hand = recurrence(self, op)
        return self._by_recurrence(by_hand) if by_hand is not None else self._by_rule(op)

    def _is_recognised(self, op: Definition) -> bool:
        """Whether the linearize rule of a bilinear op gives a tangent that differs from that of the product rule."""
        parts = self.opset.exceptions.get(self.opset.key(op))
        return parts is not None and parts(op, self.has_series) is not None

    def _shares(self, op: Definition, others: Sequence[Value], same: Definition | None = None) -> Step:
        """Makes the results of `op` share the series of the values `others`.

        Returns the step of `op`: a function that computes the series of the results of `same`, or does nothing if
        `same` is None.
        """
        for x, y in zip(others, op.results, strict=True):
            self.limits[y], self.coefficients[y] = self.limits[x], self.coefficients[x]
        return _nothing if same is None else lambda op, order: self._advance(same, order)

    def _earlier_equal(self, op: Definition) -> Definition | None:
        """An earlier op that computes equal results; None if there is none."""
        if op.source is not None or op.name in self.opset.stateful:
            return None
        given = tuple(sorted((op.given or {}).items(), key=lambda item: item[0]))
        places = tuple([id(self.coefficients[x]) for x in op.operands])
        key = op.name, places, given, tuple([y.type for y in op.results])
        same = self._equal.setdefault(key, op)
        return None if same is op else same

    def copy_results(self, op: Definition) -> None:
        """Sets the coefficients of order 0 to the results of the op.

        If other values replace the op's operands, copies the op so that it reads these values.
        """
        results: Sequence[Any] = op.results
        if op.graph in self._rule_graphs or self._is_moved(op):
            results = self._copied(op, 0)
        for y, value in zip(op.results, results, strict=True):
            self.coefficients[y] = [value]

    def _is_moved(self, op: Definition) -> bool:
        """Whether the coefficient of order 0 of an operand is a value other than the operand."""
        return any(self.coefficients[x][0] is not x for x in op.reads)

    def _copied(self, op: Definition, order: int) -> Sequence[Value | None]:
        """Copies an op that is linear in its active operands. Returns the results of the copy.

        The copy reads coefficients of order `order` of the active operands, and of order 0 of the others. If all
        coefficients of active operands are zero, emits nothing and returns None for each result. A result of dynamic
        shape is an exception for order 0, because its sizes are needed.
        """
        flags = (
            op.active
            if op.active is not None and op.graph in self._rule_graphs
            else (False,) * len(op.operands)
        )
        active = [self.at(x, order) for x, flag in zip(op.operands, flags, strict=True) if flag]
        is_zero = bool(active) and all(x is None for x in active)
        if is_zero and (order or not any(is_dynamic(y.type) for y in op.results)):
            return [None] * len(op.results)
        operands = [self.dense(x, order if flag else 0) for x, flag in zip(op.operands, flags, strict=True)]
        results = self.b.copy(op, tuple(operands), tuple([self.dense(x, 0) for x in op.captures]))
        self.b.graph.definitions[-1].active = None  # the flags of active operands do not hold here
        return results

    # ---- these steps compute the coefficients of an op's results ---------------------------------------------

    def _is_linear(self, op: Definition) -> bool:
        """Whether an op that a rule emitted is linear in all operands with a series."""
        if op.active is None or op.captures:
            return False
        return all(flag or not self.limits[x] for x, flag in zip(op.operands, op.active, strict=True))

    def _missing(self, op: Definition, order: int) -> range:
        """The orders up to `order` for which the results have no coefficients yet."""
        y = max(op.results, key=lambda y: self.limits[y])
        return range(len(self.coefficients[y]), min(order, self.limits[y]) + 1)

    def _append(self, op: Definition, values: Sequence[Value | None]) -> None:
        for y, value in zip(op.results, values, strict=True):
            if self.limits[y]:
                self.coefficients[y].append(value)

    def _linear(self, op: Definition, order: int) -> None:
        for k in self._missing(op, order):
            self._append(op, self._copied(op, k))

    def _bilinear(self, op: Definition, order: int) -> None:
        for k in self._missing(op, order):
            self._append(op, [self._product(op, k)])

    def _product(self, op: Definition, k: int) -> Value | None:
        """The coefficient of order k by Leibniz' rule. For a square, each pair of equal terms is computed once."""
        x, z = op.operands
        is_square = self.coefficients[x] is self.coefficients[z] and op.name in self.opset.commutative
        terms: dict[int, Any] = {}
        for i in range(k // 2 + 1 if is_square else k + 1):
            a, c = self.at(x, i), self.at(z, k - i)
            if a is not None and c is not None:
                terms[i] = self.b.reapply(op, {0: a, 1: c})[0]
        if is_square:
            middle = [terms.pop(k // 2)] if not k % 2 and k // 2 in terms else []
            half = [self.b.sum(terms.values())] if terms else []
            return self.b.sum([*half, *half, *middle]) if half or middle else None
        return self.b.sum(terms.values()) if terms else None

    def _by_recurrence(self, coefficient: Callable[[int], Value | None]) -> Step:
        def step(op: Definition, order: int) -> None:
            for k in self._missing(op, order):
                self._append(op, [coefficient(k)])

        return step

    def _by_rule(self, op: Definition) -> Step:
        """A step that uses the op's linearize rule. The rule runs when a coefficient of order 1 or more is first
        requested.
        """
        steps: list[Step] = []

        def step(op: Definition, order: int) -> None:
            if self._missing(op, order):
                if not steps:
                    steps.append(self._by_applied_rule(op, self._applied_rule(op)))
                steps[0](op, order)

        return step

    def _applied_rule(self, op: Definition) -> AppliedRule:
        name = f"{self.b.graph.name}.rule"
        return apply_rule(self.view, self.opset, op, lambda x: self.limits.get(x, 0) > 0, name)

    def _by_applied_rule(self, op: Definition, rule: AppliedRule) -> Step:
        self._rule_graphs.add(rule.graph)
        solve = solve_of(rule, op, self.opset, self.has_series)
        is_derivative = solve is None and not is_constant(rule, self.has_series)
        for dx, x in rule.placeholders.items():
            key = id(self.coefficients[x]), is_derivative
            self._sources[dx], self.limits[dx] = (x, is_derivative), self.limits[x] - 1
            self.coefficients[dx] = self._shared.setdefault(key, [])
        tangents = [dy for dy in rule.tangents if dy is not None]
        if solve is not None:
            tangents = [x for x, flag in zip(solve.operands, solve.active or (), strict=True) if flag]
        stepwise = rule.reads_results(op)

        def step(op: Definition, order: int) -> None:
            if not stepwise:
                self.extend(tangents, order - 1)
            for k in self._missing(op, order):
                self.extend(tangents, k - 1)
                if solve is not None:
                    of = dict(zip(solve.results, self._copied(solve, k - 1), strict=True))
                else:
                    of = {
                        dy: self._scaled(self.at(dy, k - 1), 1 / k if is_derivative else 1) for dy in tangents
                    }
                self._append(op, [None if dy is None else of[dy] for dy in rule.tangents])

        return step


def _reads(op: Definition) -> tuple[Value, ...]:
    """The values whose series an op needs; for an op that extracts a part of a tuple, only this part."""
    taken = part(op)
    return op.reads if taken is None else (taken,)


def _has_own_derivative(view: View, op: Definition) -> bool:
    """Whether the op calls a function with its own derivative."""
    if op.name != CALL:
        return False
    graph = view.graph(op.attributes[GRAPHS][0].value)
    return any(attribute in graph.attributes for attribute in DERIVATIVES)


def _nothing(op: Definition, order: int) -> None:
    """Does nothing. This is the step of an op whose results have no coefficients of order 1 or more."""
