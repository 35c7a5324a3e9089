"""Taylor series of values: x(t) = x_0 + x_1 t + ... + x_K t^K, propagated op by op.

A linear op maps the coefficients of each order (form `linear`); a bilinear op follows Leibniz' rule:

    (a b)_k = sum over i = 0..k of a_i b_{k-i}

Every other op goes by its linearize rule, which gives y' = L(x, y) x'. The rule runs once, on inputs that stand for x',
the derivative in t. Their series is x'_k = (k + 1) x_{k+1}. The ops that the rule emits have series by the same
means, and y_k = y'_{k-1} / k. What the rule reads, such as the cosine in the rule of a sine, is needed to order k - 1
only, so the recursion ends. Equal ops have one series: the rule of the cosine reads the sine again.

Source: Griewank, Walther, "Evaluating Derivatives" (2008), chapter 13.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from tiduc.dialect.control import is_control
from tiduc.dialect.errors import OpenSize
from tiduc.dialect.graph import Definition, Value
from tiduc.dialect.view import BINDING, View
from tiduc.passes.engine.close import inline
from tiduc.passes.engine.split import split
from tiduc.passes.jets.recurrences import RECURRENCES
from tiduc.passes.linearize import linearize
from tiduc.passes.rules.lent import Linearizing
from tiduc.passes.rules.registry import OpSet

Coefficients = list[Any | None]
"""By order, from 0; None for a zero. The coefficient of order 0 of a primal value is mostly the value itself."""
Step = Callable[[Definition, int], None]
"""Computes the series of an op's results up to an order."""


class Series:
    """The series of values, computed when they are asked for.

    `given` has the coefficients of the variables, to the order of the jet. `b` builds the graph of the coefficients.
    `control` computes the series of the results of a control-flow op.
    """

    def __init__(
        self, view: View, opset: OpSet, b: Any, given: Mapping[Value, Coefficients], control: Any
    ) -> None:
        self.view, self.opset, self.b = view, opset, b
        self.coefficients: dict[Value, Coefficients] = {x: list(c) for x, c in given.items()}
        self.limits: dict[Value, int] = {x: len(c) - 1 for x, c in given.items()}
        self.forms: Any = opset.builder(view, view.fresh("L"))
        engine = Linearizing(
            partial(split, self.forms, opset, linearize), partial(inline, self.forms), opset.linearize_rule
        )
        engine.tangent = lambda x: self._tangent(x) if self.limits.get(x, 0) else None
        self.forms.engine = engine
        self.control = control
        self._steps: dict[Definition, Step] = {}
        self._tangents: dict[Value, Value] = {}
        self._source: dict[Value, Value] = {}  # the inverse of `_tangents`
        self._equal: dict[Any, Definition] = {}

    # ---- asking -----------------------------------------------------------------------------------------------

    def limit(self, x: Value) -> int:
        """The highest order at which a value may have a coefficient; 0 for a value that is constant in t."""
        return self.limits[x]

    def at(self, x: Value, order: int) -> Any | None:
        """A coefficient that is computed already; None for a zero."""
        found = self.coefficients[x]
        return found[order] if order < len(found) else None

    def dense(self, x: Value, order: int) -> Any:
        """A coefficient that is computed already, with zeros as values."""
        found = self.at(x, order)
        return self.b.zeros_like(self.coefficients[x][0] or x) if found is None else found

    def moved(self, x: Value) -> bool:
        """Whether the coefficient of order 0 is another value than x."""
        return self.coefficients[x][0] is not x

    def extend(self, values: Sequence[Value], order: int) -> None:
        """Computes the coefficients of values up to an order, or to their limits. Not recursive in depth."""
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
            missing = [y for y in op.reads if not self._is_known(y, order)]
            if missing:
                stack += missing
                continue
            stack.pop()
            self._advance(op, order)

    def _is_known(self, x: Value, order: int) -> bool:
        limit = self.limits.get(x)
        return limit is not None and min(order, limit) < len(self.coefficients[x])

    def _extend_input(self, x: Value, order: int) -> None:
        source = self._source.get(x)
        if source is None:  # an input in which nothing is differentiated
            self.limits[x], self.coefficients[x] = 0, [x]
            return
        found = self.coefficients[x]
        for k in range(len(found), min(order, self.limits[x]) + 1):
            found.append(self._scaled(self.at(source, k + 1), k + 1))

    def _scaled(self, x: Any | None, factor: float) -> Any | None:
        if x is None or factor == 1:
            return x
        return self.b.multiply(self.b.constant(factor, x), x)

    # ---- ops --------------------------------------------------------------------------------------------------

    def _advance(self, op: Definition, order: int) -> None:
        step = self._steps.get(op)
        if step is None:
            step = self._steps[op] = self._step(op)
        self.b.location = op.location
        try:
            step(op, order)
        except OpenSize as error:
            raise self.opset.unsupported("jvp", op, error.message) from None

    def _step(self, op: Definition) -> Step:
        """How to compute the series of an op's results; sets their limits."""
        if op.name == BINDING:
            (x,) = op.operands
            self.limits[op.result], self.coefficients[op.result] = self.limits[x], self.coefficients[x]
            return _nothing
        limits = [self.limits[x] for x in op.reads if self.limits[x]]
        rule = None if is_control(op) else self._rule(op)
        if not limits or (rule is None and not is_control(op)):
            return self._constant(op)
        same = self._same(op)
        if same is not None:
            for x, y in zip(same.results, op.results, strict=True):
                self.limits[y], self.coefficients[y] = self.limits[x], self.coefficients[x]
            return lambda op, order: self._advance(same, order)
        for y in op.results:
            smooth = self.b.tangent_type(y.type) is not None
            self.limits[y] = min(limits) if smooth else 0
        if is_control(op) and not self.control.has_own_derivative(self.view, op):
            return lambda op, order: self.control.extend(self, op, min(limits))
        self._copy_results(op)
        if op.active is not None and all(
            flag or not self.limits[x] for x, flag in zip(op.operands, op.active, strict=True)
        ):
            return self._linear
        key = self.opset.key(op)
        if key in RECURRENCES:
            return partial(_by_recurrence, self, RECURRENCES[key])
        if self.opset.forms.get(key) == "bilinear":
            return self._bilinear
        return self._by_rule()

    def _rule(self, op: Definition) -> Any:
        return self.opset.linearize_rule(op)

    def _constant(self, op: Definition) -> Step:
        for y in op.results:
            self.limits[y] = 0
        self._copy_results(op)
        return _nothing

    def _copy_results(self, op: Definition) -> None:
        """The coefficients of order 0: the results, or those of a copy where a coefficient of an operand is another."""
        results: Sequence[Any] = op.results
        if any(map(self.moved, op.reads)):
            results = self._copied(op, 0)
        for y, value in zip(op.results, results, strict=True):
            self.coefficients[y] = [value]

    def _copied(self, op: Definition, order: int) -> Sequence[Any | None]:
        """A copy of an op that is linear in its active operands, on their coefficients of an order."""
        flags = op.active or (False,) * len(op.operands)
        given = [self.at(x, order if flag else 0) for x, flag in zip(op.operands, flags, strict=True)]
        if op.active is not None and all(
            value is None for value, flag in zip(given, flags, strict=True) if flag
        ):
            return [None] * len(op.results)
        operands = [
            self.b.zeros_like(self._like(x)) if value is None else value
            for x, value in zip(op.operands, given, strict=True)
        ]
        captures = tuple([self.dense(x, 0) for x in op.captures])
        results = self.b.copy(op, tuple(operands), captures)
        self.b.graph.definitions[-1].active = None  # a mask holds only in the graph that the op was in
        return results  # type: ignore[no-any-return]

    def _like(self, x: Value) -> Any:
        """A value of the type and sizes of x that the graph of coefficients may read."""
        return next((c for c in self.coefficients[x] if c is not None), x.type)

    def _same(self, op: Definition) -> Definition | None:
        """An earlier op that computes the same results; None where there is none."""
        if op.source is not None or op.name in self.opset.stateful or op.active is not None:
            return None
        given = tuple(sorted((op.given or {}).items(), key=lambda item: item[0]))
        places = tuple([id(self.coefficients[x]) for x in op.operands])
        key = op.name, places, given, tuple([y.type for y in op.results])
        same = self._equal.setdefault(key, op)
        return None if same is op else same

    # ---- forms ------------------------------------------------------------------------------------------------

    def _linear(self, op: Definition, order: int) -> None:
        made = len(self.coefficients[op.results[0]])
        for k in range(made, min(order, self.limits[op.results[0]]) + 1):
            for y, value in zip(op.results, self._copied(op, k), strict=True):
                self.coefficients[y].append(value)

    def _bilinear(self, op: Definition, order: int) -> None:
        x, z = op.operands
        y = op.result
        for k in range(len(self.coefficients[y]), min(order, self.limits[y]) + 1):
            pairs = [(self.at(x, i), self.at(z, k - i)) for i in range(k + 1)]
            terms = [
                self.b.reapply(op, {0: a, 1: c})[0] for a, c in pairs if a is not None and c is not None
            ]
            self.coefficients[y].append(self.b.sum(terms) if terms else None)

    def _by_rule(self) -> Step:
        form: list[Any] = []

        def step(op: Definition, order: int) -> None:
            if not form:
                form.extend(self._linearized(op))
            tangents, is_linear = form
            smooth = [(y, dy) for y, dy in zip(op.results, tangents, strict=True) if self.limits[y]]
            if not smooth:
                return
            for k in range(len(self.coefficients[smooth[0][0]]), min(order, self.limits[smooth[0][0]]) + 1):
                self.extend([dy for _, dy in smooth if dy is not None], k - 1)
                for y, dy in smooth:
                    self.coefficients[y].append(
                        None if dy is None else self._scaled(self.at(dy, k - 1), 1 / k)
                    )

        return step

    def _linearized(self, op: Definition) -> tuple[Sequence[Value | None], bool]:
        """The derivatives in t of an op's results, by its linearize rule."""
        self.forms.location = op.location
        self.forms.engine.scheduled = [op]
        dx = [self._tangent(x) if self.limits[x] else None for x in op.reads]
        rule = self.opset.linearize_rule(op)
        assert rule is not None
        if op.captures and op.name not in self.opset.capturing:
            if any(dx[len(op.operands) :]):
                raise self.opset.unsupported("jvp", op, "its region reads an active value from outside")
            del dx[len(op.operands) :]
        return rule(self.forms, op, dx), False

    def _tangent(self, x: Value) -> Value:
        """The input of `forms` that stands for the derivative of x in t."""
        if x not in self._tangents:
            key = f"{self.forms.graph.name}.{len(self._tangents)}"
            dx = self._tangents[x] = self.forms.input(key, x.type, linear=True)
            self._source[dx] = x
            self.limits[dx] = self.limits[x] - 1
            self.coefficients[dx] = []
        return self._tangents[x]


def _nothing(op: Definition, order: int) -> None:
    """The step of an op without further coefficients."""


def _by_recurrence(series: Series, recurrence: Any, op: Definition, order: int) -> None:
    y = op.result
    for k in range(len(series.coefficients[y]), min(order, series.limits[y]) + 1):
        series.coefficients[y].append(recurrence(series, op, k))
