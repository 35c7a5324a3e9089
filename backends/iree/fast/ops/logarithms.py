"""Computes log of f64 by a polynomial, which compiles to vector code.

    %0 = stablehlo.log %x : tensor<9xf64>    ->    k log 2 + 2 atanh(s),  x = 2^k (1 + f),  s = f / (2 + f)

IREE would call the C library for each element. Here, 1 + f is between the square roots of 1/2 and 2, and 2 atanh(s) is
computed as f - s (f - R), where R is s^2 times a polynomial in s^2. The polynomial approximates the logarithm with a
relative error of 2^-57. Results are within one unit in the last place.
"""

import numpy as np

from tiduc.backends.iree.emit.emitter import Emitter, signless
from tiduc.backends.iree.emit.polynomials import LOG_2, WHOLE, hexadecimal, polynomial
from tiduc.backends.iree.fast.ops.exponentials import of_f64
from tiduc.dialect.ops.ir_types import IrValue
from tiduc.dialect.shapes.types import element

_P = hexadecimal("""
    0x1.5555555555558p-1 0x1.9999999995077p-2 0x1.2492492e35998p-2 0x1.c71c628e9e0c9p-3
    0x1.7462cd53e5318p-3 0x1.39fb2efe206abp-3 0x1.2b7fa64da1a6ap-3
""")
"""The coefficients of a polynomial in s^2 that approximates (2 atanh(s) - 2 s) / s^3, for s^2 <= 0.0296."""
_ROOT = int(np.float64(0.5**0.5).view(np.int64))
_WHOLE = int(np.float64(WHOLE).view(np.int64))


@of_f64("log", "For f64, IREE calls the C library for each element; tiduc emits a polynomial as vector code.")
def log(b: Emitter, x: IrValue) -> IrValue:
    """Computes log(x) by a polynomial, as vector code."""
    bits = b.bitcast(x, signless(64))
    from_root = b.subtract(bits, _ROOT)
    k = b.emit("stablehlo.shift_right_arithmetic", (from_root, 52), bits.type)
    power = b.shift_left(k, 52)
    # k is converted to a float by arithmetic on bits, because not all CPUs convert vectors of 64-bit integers.
    n = b.subtract(b.bitcast(b.add(k, _WHOLE), element(x)), WHOLE)
    f = b.subtract(b.bitcast(b.subtract(bits, power), element(x)), 1)
    s = b.divide(f, b.add(f, 2))
    square = b.multiply(s, s)
    half = b.multiply(b.multiply(f, f), 0.5)
    # 2 atanh(s) = f - f^2 / 2 + s (f^2 / 2 + R). f is added last, because it is the largest term if k = 0.
    rest = b.multiply(s, b.add(half, b.multiply(square, polynomial(b, square, _P))))
    low = b.add(rest, b.multiply(n, LOG_2[1]))
    y = b.subtract(b.multiply(n, LOG_2[0]), b.subtract(b.subtract(half, low), f))
    # The logarithm of a denormal number is -infinity, as if the number were 0.
    y = b.select(b.compare(x, float(np.finfo(np.float64).tiny), "LT"), b.constant(-np.inf, x), y)
    y = b.select(b.compare(x, 0, "LT"), b.constant(np.nan, x), y)
    return b.select(b.compare(x, np.inf, "LT"), y, x)
