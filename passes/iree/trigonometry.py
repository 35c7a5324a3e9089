"""sine, cosine and tangent of f32: IREE's error grows with the argument, ours does not.

x is reduced in f64 to r in [-pi/4, pi/4] and a count of quarter turns; Taylor polynomials, in f64 too, give sin r and
cos r to 1e-9, so the result is within one unit in the last place of f32 for |x| < 1e9. Beyond, the C library has it.
"""

from collections.abc import Sequence
from math import factorial
from typing import Any

import numpy as np
from torch_mlir import ir

from tiduc.dialect.types import element, is_float
from tiduc.passes.iree.emitter import Emitter, legalize

_HIGH = float.fromhex("0x1.921fb544p+0")  # 33 bits of pi/2, whose product with a count below 2^20 is exact
_MIDDLE = float.fromhex("0x1.0b4611a6p-34")  # the next 33
_LOW = float.fromhex("0x1.3198a2e037073p-69")


@legalize("stablehlo.sine", "stablehlo.cosine", "stablehlo.tan", cpu=True)
def trigonometric(b: Emitter, op: Any) -> Sequence[Any] | None:
    """A polynomial of the reduced argument, its sign by the quarter; tan is sin / cos."""
    x = op.operands[0]
    if not is_float(x) or element(x).width > 32:
        return None
    f64 = ir.F64Type.get()
    given = b.convert(x, f64)
    zero = b.like(0, given)
    far = b.compare(b.abs(given), b.like(1e9, given), "GT")
    wide = b.select(far, zero, given)
    count = b.round_nearest_even(b.multiply(wide, b.like(2 / np.pi, wide)))
    r = wide
    for part in (_HIGH, _MIDDLE, _LOW):
        r = b.subtract(r, b.multiply(count, b.like(part, wide)))
    square = b.multiply(r, r)
    sine = b.multiply(r, _polynomial(b, square, [(-1) ** i / factorial(2 * i + 1) for i in range(7)]))
    cosine = _polynomial(b, square, [(-1) ** i / factorial(2 * i) for i in range(7)])
    # The count modulo four, as a float: 0, 1, 2 or 3.
    turns = b.floor(b.multiply(count, b.like(0.25, wide)))
    quarter = b.subtract(count, b.multiply(turns, b.like(4, wide)))
    odd = b.or_(b.compare(quarter, b.like(1, wide), "EQ"), b.compare(quarter, b.like(3, wide), "EQ"))
    s, c = b.select(odd, cosine, sine), b.select(odd, sine, cosine)
    if op.name == "stablehlo.tan":
        y = b.divide(b.select(odd, b.negate(s), s), c)
    elif op.name == "stablehlo.sine":
        y = b.select(b.compare(quarter, b.like(2, wide), "GE"), b.negate(s), s)
    else:
        below = b.or_(b.compare(quarter, b.like(1, wide), "EQ"), b.compare(quarter, b.like(2, wide), "EQ"))
        y = b.select(below, b.negate(c), c)
    beyond = b.emit(op.name, (b.select(far, given, zero),), given.type)
    return [b.convert(b.select(far, beyond, y), element(x))]


def _polynomial(b: Emitter, x: Any, coefficients: Sequence[float]) -> Any:
    """By Horner's rule, the constant first."""
    y = b.like(coefficients[-1], x)
    for coefficient in coefficients[-2::-1]:
        y = b.add(b.multiply(y, x), b.like(coefficient, x))
    return y
