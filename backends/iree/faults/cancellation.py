"""log_plus_one and exponential_minus_one of f64, in which IREE loses bits near 0: Kahan's formulas.

    log(1 + x) = log(u) x / (u - 1),  u = 1 + x        e^x - 1 = (u - 1) x / log(u),  u = e^x

The rounding errors of u in the numerator and in the denominator cancel. fast/ has polynomials for CPUs.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tiduc.backends.iree.emitter import Emitter, legalize
from tiduc.backends.iree.fault import wrong
from tiduc.dialect.types import is_f64


@legalize("stablehlo.log_plus_one")
@wrong("Loses 11 bits of f64; emits log(u) x / (u - 1), u = 1 + x.", "log_plus_one")
def log_plus_one(b: Emitter, op: Any) -> Sequence[Any] | None:
    """log(u) x / (u - 1), and x where u is 1 or infinite."""
    x = op.operands[0]
    if not is_f64(x):
        return None
    u = b.add(x, 1)
    plain = b.or_(b.compare(u, 1, "EQ"), b.compare(u, np.inf, "EQ"))
    y = b.divide(b.multiply(b.log(u), x), b.select(plain, b.like(1, x), b.subtract(u, 1)))
    return [b.select(plain, x, y)]


@legalize("stablehlo.exponential_minus_one")
@wrong("Loses 12 bits of f64; emits (u - 1) x / log(u), u = e^x.", "exponential_minus_one")
def exponential_minus_one(b: Emitter, op: Any) -> Sequence[Any] | None:
    """(u - 1) x / log(u); x where u is 1, and u - 1 for large x."""
    x = op.operands[0]
    if not is_f64(x):
        return None
    u = b.exponential(x)
    near, large, less = b.compare(u, 1, "EQ"), b.compare(b.abs(x), 1, "GT"), b.subtract(u, 1)
    y = b.divide(b.multiply(less, x), b.log(b.select(b.or_(near, large), b.like(2, x), u)))
    return [b.select(near, x, b.select(large, less, y))]
