"""Recurrences for ops that are linear in one operand and divide by the other.

    y = a / b:    b y = a,   so   y_k = (a_k - sum over i = 1..k of b_i y_{k-i}) / b_0

A recurrence (series, op, k) -> y_k reads coefficients of the operands up to order k, and of the result below k.

Source: Griewank, Walther, "Evaluating Derivatives" (2008), table 13.1.
"""

from collections.abc import Callable
from typing import Any

from tiduc.dialect.graph import Definition

Recurrence = Callable[[Any, Definition, int], Any | None]


def divide(series: Any, op: Definition, k: int) -> Any | None:
    b = series.b
    x, z = op.operands
    terms = [
        b.multiply(series.at(z, i), series.at(op.result, k - i))
        for i in range(1, k + 1)
        if series.at(z, i) is not None and series.at(op.result, k - i) is not None
    ]
    rest = series.at(x, k)
    if terms:
        rest = b.negate(b.sum(terms)) if rest is None else b.subtract(rest, b.sum(terms))
    return None if rest is None else b.divide(rest, series.at(z, 0))


RECURRENCES: dict[str, Recurrence] = {"stablehlo.divide": divide}
