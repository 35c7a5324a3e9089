"""log and log_plus_one of f64 as polynomials, in code of vectors, as IREE has none.

    %0 = stablehlo.log %x : tensor<9xf64>    ->    k log 2 + 2 atanh(s),  x = 2^k (1 + f),  s = f / (2 + f)

IREE calls the C library for each number. 1 + f lies between the roots of 1/2 and of 2; 2 atanh(s) is f - s (f - R),
where R is s^2 times a fit, to 2^-57 of the logarithm. Results are within one unit in the last place, of log_plus_one 2.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tiduc.backends.iree.emitter import Emitter, legalize, signless
from tiduc.backends.iree.fast.exponentials import LOG_2, WHOLE, is_f64, polynomial
from tiduc.dialect.types import element

_P = tuple(
    map(
        float.fromhex,
        (
            "0x1.5555555555558p-1",
            "0x1.9999999995077p-2",
            "0x1.2492492e35998p-2",
            "0x1.c71c628e9e0c9p-3",
            "0x1.7462cd53e5318p-3",
            "0x1.39fb2efe206abp-3",
            "0x1.2b7fa64da1a6ap-3",
        ),
    )
)
"""(2 atanh(s) - 2 s) / s^3, by powers of s^2, for s^2 <= 0.0296."""
_ROOT = int(np.float64(0.5**0.5).view(np.int64))
_WHOLE = int(np.float64(WHOLE).view(np.int64))


@legalize("stablehlo.log", cpu=True)
def log(b: Emitter, op: Any) -> Sequence[Any] | None:
    """Of f64 IREE calls the C library for each number: a polynomial, in code of vectors."""
    x = op.operands[0]
    return [_log(b, x)] if is_f64(x) else None


@legalize("stablehlo.log_plus_one")
def log_plus_one(b: Emitter, op: Any) -> Sequence[Any] | None:
    """f64 loses 11 bits: log(u) and what u = 1 + x has lost, over u; on GPUs log(u) x / (u - 1), which is Kahan's."""
    x = op.operands[0]
    if not is_f64(x):
        return None
    one = b.like(1, x)
    u = b.add(x, one)
    if b.cpu:
        lost = b.subtract(x, b.subtract(u, one))
        # Nothing is lost of -1, nor of infinity, whose difference to itself is no number.
        kept = b.or_(b.compare(lost, b.like(0, x), "EQ"), b.compare(u, b.like(np.inf, x), "EQ"))
        logarithm = _log(b, u)
        y = b.select(kept, logarithm, b.add(logarithm, b.divide(lost, u)))
        return [b.select(b.compare(x, b.like(0, x), "EQ"), x, y)]  # which keeps its sign
    plain = b.or_(b.compare(u, one, "EQ"), b.compare(u, b.like(np.inf, x), "EQ"))
    y = b.divide(b.multiply(b.log(u), x), b.select(plain, one, b.subtract(u, one)))
    return [b.select(plain, x, y)]


def _log(b: Emitter, x: Any) -> Any:
    bits = b.bitcast(x, signless(64))
    from_root = b.subtract(bits, b.like(_ROOT, bits))
    k = b.emit("stablehlo.shift_right_arithmetic", (from_root, b.like(52, bits)), bits.type)
    power = b.emit("stablehlo.shift_left", (k, b.like(52, bits)), bits.type)
    # Vectors of 64-bit integers become floats by their bits alone where there is no instruction for it.
    n = b.subtract(b.bitcast(b.add(k, b.like(_WHOLE, k)), element(x)), b.like(WHOLE, x))
    f = b.subtract(b.bitcast(b.subtract(bits, power), element(x)), b.like(1, x))
    s = b.divide(f, b.add(f, b.like(2, x)))
    square = b.multiply(s, s)
    half = b.multiply(b.multiply(f, f), b.like(0.5, x))
    # 2 atanh(s) = f - f^2 / 2 + s (f^2 / 2 + R), of which f alone is large where k = 0.
    rest = b.multiply(s, b.add(half, b.multiply(square, polynomial(b, square, _P))))
    low = b.add(rest, b.multiply(n, b.like(LOG_2[1], x)))
    y = b.subtract(b.multiply(n, b.like(LOG_2[0], x)), b.subtract(b.subtract(half, low), f))
    zero, infinity = b.like(0, x), b.like(np.inf, x)
    # Denormal numbers count as 0.
    y = b.select(b.compare(x, b.like(np.finfo(np.float64).tiny, x), "LT"), b.negate(infinity), y)
    y = b.select(b.compare(x, zero, "LT"), b.like(np.nan, x), y)
    return b.select(b.compare(x, infinity, "LT"), y, x)
