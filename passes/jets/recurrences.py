"""A recurrence by hand, for a power with a constant exponent that is no natural number.

    y = x^p:    x y' = p x' y,   so   y_k = (sum over j = 1..k of (p j - (k - j)) x_j y_{k-j}) / (k x_0)

The linearize rule would need x^{p-1}, x^{p-2}, ...: the cost would grow with the third power of the order.
Where x_0 = 0, the coefficients of orders below p are 0, and those of higher orders do not exist (NaN). A power with
a natural exponent goes by its rule, which is exact at 0 and ends with x^2.

Source: Griewank, Walther, "Evaluating Derivatives" (2008), table 13.2.
"""

from collections.abc import Callable
from typing import Any

from tiduc.dialect.graph import Definition
from tiduc.dialect.matchers import splat
from tiduc.dialect.types import is_complex

POWER = "stablehlo.power"


def recurrence(series: Any, op: Definition) -> Callable[[int], Any | None] | None:
    """A function from k to the coefficient y_k, which reads those of orders below k; None for all other ops."""
    if op.name != POWER or series.limits[op.operands[1]]:
        return None
    p = splat(op.operands[1])
    if p is None or is_complex(op.result) or (p >= 0 and p.is_integer()):
        return None
    return lambda k: _power(series, op, p, k)


def _power(series: Any, op: Definition, p: float, k: int) -> Any | None:
    b, x, y = series.b, op.operands[0], op.result
    factors = {j: p * j - (k - j) for j in range(1, k + 1)}
    terms = [
        b.multiply(b.constant(factor / k, xj), b.multiply(xj, yi))
        for j, factor in factors.items()
        if factor and (xj := series.at(x, j)) is not None and (yi := series.at(y, k - j)) is not None
    ]
    if not terms:
        return None
    x0 = series.at(x, 0)
    yk = b.divide(b.sum(terms), x0)
    zero = b.zeros_like(x0)
    return b.select(b.compare(x0, zero, "EQ"), zero, yk) if k < p else yk
