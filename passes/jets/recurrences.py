"""Recurrences for powers. The linearize rule takes O(K^3) time, because it needs the series of x^{p-1}, x^{p-2}, ...

    y = x^p    x y' = p x' y              y_k = (sum over j = 1..k of (p j - (k - j)) x_j y_{k-j}) / (k x_0)
    y = x^p    l = log x;  u = p l        l_k = (x_k - (sum over 0 < j < k of j l_j x_{k-j}) / k) / x_0
               y' = u' y                  y_k = (sum over j = 1..k of j u_j y_{k-j}) / k

The first recurrence is for a constant exponent that is not a natural number, the second for an exponent with a series.
A power with a natural exponent uses its linearize rule, which is exact at 0 and needs only the powers down to x^2.

Where x_0 = 0, coefficients of orders below p are 0, and those of higher orders do not exist (NaN). If the exponent
varies, the coefficient of order p is x_1^p, and that of order 1 follows from the linearize rule.

Source: Griewank, Walther, "Evaluating Derivatives" (2008), table 13.2.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.facts.matchers import splat
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.shapes.types import is_complex

POWER = "stablehlo.power"


class KnownSeries(Protocol):
    """The part of `Series` that recurrences read: the coefficients known so far, and the builder."""

    @property
    def b(self) -> StablehloBuilder: ...
    @property
    def limits(self) -> Mapping[Value, int]: ...

    def at(self, x: Value, order: int) -> Value | None:
        """A known coefficient; None for a zero."""

    def dense(self, x: Value, order: int) -> Value:
        """A known coefficient, as an explicit value even if it is zero."""


def recurrence(series: KnownSeries, op: Definition) -> Callable[[int], Any | None] | None:
    """The recurrence of an op: a function from k to the coefficient y_k, which reads coefficients of lower orders.

    Returns None if the op has no recurrence.
    """
    if op.name != POWER:
        return None
    if series.limits[op.operands[1]]:
        return _Exponential(series, op).coefficient if series.limits[op.operands[0]] else None
    p = splat(op.operands[1])
    if p is None or is_complex(op.result) or (p >= 0 and p.is_integer()):
        return None
    return partial(_power, series, op, p)


def _power(series: KnownSeries, op: Definition, p: float, k: int) -> Value | None:
    b, x, y = series.b, op.operands[0], op.result
    factors = {j: p * j - (k - j) for j in range(1, k + 1)}
    terms = [
        b.multiply(b.constant(factor / k, xj), b.multiply(xj, yi))
        for j, factor in factors.items()
        if factor and (xj := series.at(x, j)) is not None and (yi := series.at(y, k - j)) is not None
    ]
    if not terms:
        return None
    x0 = series.dense(x, 0)
    yk = b.divide(b.sum(terms), x0)
    zero = b.zeros_like(x0)
    return b.select(b.compare(x0, zero, "EQ"), zero, yk) if k < p else yk


class _Exponential:
    """The coefficients of exp(u) for u = p log x. `logs` has the coefficients l_j of log x, `slopes` has j u_j."""

    def __init__(self, series: KnownSeries, op: Definition) -> None:
        self.series, self.op = series, op
        self.logs: list[Value | None] = []
        self.slopes: list[Value | None] = [None]  # j u_j
        self.is_zero: Any = None
        self.x0: Any = None

    def coefficient(self, k: int) -> Value | None:
        """The coefficient y_k. Must be called for k = 1, 2, ... in order."""
        series, b, (x, p), y = self.series, self.series.b, self.op.operands, self.op.result
        if not self.logs:
            x0 = series.dense(x, 0)
            self.is_zero = b.compare(x0, b.zeros_like(x0), "EQ")
            self.x0 = b.select(self.is_zero, b.constant(1, x0), x0)
            self.logs.append(b.log(self.x0))
        self.logs.append(self._log(k))
        terms = [(series.at(p, i), self.logs[k - i]) for i in range(k + 1)]
        self.slopes.append(_scaled(b, _sum_of_products(b, terms), k))
        yk = _sum_of_products(b, [(self.slopes[j], series.at(y, k - j)) for j in range(1, k + 1)])
        return None if yk is None else b.select(self.is_zero, self._at_zero(k), _times(b, yk, 1 / k))

    def _log(self, k: int) -> Value | None:
        series, b, x = self.series, self.series.b, self.op.operands[0]
        terms = [(_scaled(b, self.logs[j], j), series.at(x, k - j)) for j in range(1, k)]
        xk, total = series.at(x, k), _scaled(b, _sum_of_products(b, terms), -1 / k)
        parts = [part for part in (xk, total) if part is not None]
        return b.divide(b.sum(parts), self.x0) if parts else None

    def _at_zero(self, k: int) -> Value:
        series, b, (x, p) = self.series, self.series.b, self.op.operands
        x1, p0 = series.dense(x, 1), series.dense(p, 0)
        if k == 1:  # p x^(p - 1) x_1, or 0 where p = 0
            zero, one = b.zeros_like(p0), b.constant(1, p0)
            is_singular = b.and_(
                self.is_zero, b.compare(p0, zero, "NE")
            )  # where this is false, the base is 1: for a base of 0, reverse mode would compute 0 * inf
            base = b.select(is_singular, zero, one)
            return b.multiply(b.multiply(p0, b.power(base, b.subtract(p0, one))), x1)
        none = b.constant(float("nan"), x1)
        if is_complex(x1):
            return none
        order = b.constant(k, p0)
        of_order = b.select(b.compare(p0, order, "EQ"), b.power(x1, b.constant(k, x1)), none)
        return b.select(b.compare(p0, order, "GT"), b.zeros_like(x1), of_order)


def _sum_of_products(b: StablehloBuilder, terms: list[tuple[Value | None, Value | None]]) -> Value | None:
    products = [b.multiply(u, v) for u, v in terms if u is not None and v is not None]
    return b.sum(products) if products else None


def _scaled(b: StablehloBuilder, x: Value | None, factor: float) -> Value | None:
    return None if x is None else _times(b, x, factor)


def _times(b: StablehloBuilder, x: Value, factor: float) -> Value:
    return x if factor == 1 else b.multiply(b.constant(factor, x), x)
