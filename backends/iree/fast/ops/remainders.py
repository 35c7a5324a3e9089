"""Computes remainder of f32, f16 and bf16 by fused multiply-adds in f64, which compile to vector code.

IREE would call the C library for each element. Let v = 1 / |y| and r = |x|. Each step subtracts from r the multiple of
2^(51 k) |y| that is nearest to r:

    q = (r v + w) - w,  w = 3/2 2^(52 + 51 k);    r = r - q |y|    for k = 5, 4, 3, 2, 1, 0

Floats near w are 2^(51 k) apart, so q is rounded to a multiple of 2^(51 k). |x / y| is below 2^277, and v has a
relative error of 2^-53; therefore, after step k, |r| is below 3/4 of 2^(51 k) |y|. Each r is exact, because it has few
bits and is a multiple of the last bit of x or of y. If the last r is negative, |y| is added to it; this sum is exact,
too.
"""

from collections.abc import Sequence

import numpy as np
from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import Emitter, legalize
from tiduc.backends.iree.emit.known import known_number
from tiduc.backends.iree.emit.polynomials import WHOLE, with_sign
from tiduc.backends.iree.fault import slow
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import element, is_float

_STEPS = tuple(WHOLE * 2.0 ** (51 * k) for k in range(5, -1, -1))
_LARGE = 2.0**200
"""The number that replaces an infinite |y|. The remainder is x for both divisors."""


@legalize("stablehlo.remainder")
@slow(
    "IREE calls the C library for each element; up to f32, CPUs with fused multiply-add take exact steps in f64.",
    "flags.py: remainder",
)
def remainder(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Computes a remainder of splat constants at compile time. Emits the steps in f64 for f32, f16 and bf16.

    Returns None for other types, and for targets that are not CPUs with fused multiply-add.
    """
    x, y = op.operands
    if not is_float(x) or element(x).width < 16:
        return None
    dividend, divisor = known_number(x), known_number(y)
    if dividend is not None and divisor:
        return [b.constant(float(np.fmod(dividend, divisor)), x)]
    return [_by_steps(b, x, y)] if b.cpu and b.fused and element(x).width <= 32 else None


def _by_steps(b: Emitter, x: IrValue, y: IrValue) -> IrValue:
    f64 = ir.F64Type.get()
    wide = b.convert(x, f64)
    r, size = b.abs(wide), b.abs(b.convert(y, f64))
    size = b.select(b.compare(size, b.constant(np.inf, size), "EQ"), b.constant(_LARGE, size), size)
    inverse = b.divide(b.constant(1, size), size)
    for step in _STEPS:
        whole = b.constant(step, r)
        times = b.subtract(b.fma(r, inverse, whole), whole)
        r = b.fma(b.negate(times), size, r)
    r = b.select(b.compare(r, b.constant(0, r), "LT"), b.add(r, size), r)
    return b.convert(with_sign(b, r, wide), element(x))
