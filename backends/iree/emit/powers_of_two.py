"""2^x for f32 and f64, exact at integers: 2^n e^(f log 2), where n is the integer nearest x, and f = x - n.

The power 2^n is a product of two factors, because it may be subnormal or overflow. The bits of both factors are
computed from n.
"""

import math

from tiduc.backends.iree.emit.emitter import Emitter, signless
from tiduc.dialect.ops.ir_types import IrValue
from tiduc.dialect.shapes.types import bits, element

_FORMATS = {32: (23, 127), 64: (52, 1023)}
"""For each width of a float type, its number of mantissa bits, and the bias of its exponent."""


def exponent_of(base: float) -> float | None:
    """Returns k if the base is 2^k and |k| is a power of two, so that products with k are exact. Otherwise None."""
    mantissa, exponent = math.frexp(base)
    k = exponent - 1
    return float(k) if mantissa == 0.5 and k and abs(math.frexp(k)[0]) == 0.5 else None


def power_of_two(b: Emitter, x: IrValue) -> IrValue:
    """Computes 2^x for f32 or f64. It is exact where x is an integer and 2^x is a normal number.

    Devices may round subnormal results to 0.
    """
    mantissa, bias = _FORMATS[bits(x)]
    most = 2 * (bias - 1)  # 2^x is 0 below -most, and infinite above most
    for bound, direction in ((-most, "LT"), (most, "GT")):  # comparisons with NaN are false
        x = b.select(b.compare(x, bound, direction), b.constant(bound, x), x)
    whole = 1.5 * 2.0**mantissa  # near this number, adjacent floats differ by 1
    n = b.subtract(b.add(x, whole), whole)
    f = b.subtract(x, n)
    near = b.select(b.compare(f, 0, "EQ"), b.constant(1, x), b.exponential(b.multiply(f, math.log(2))))
    half = b.subtract(b.add(b.multiply(n, 0.5), whole), whole)
    for k in (half, b.subtract(n, half)):
        # The bits of whole + k are the sum of k and the bits of `whole`, which the shift drops.
        code = b.shift_left(b.bitcast(b.add(k, whole), signless(bits(x))), mantissa)
        near = b.multiply(near, b.bitcast(b.add(code, bias << mantissa), element(x)))
    return near
