"""Functions of f64 as polynomials, which compile to vector code.

    e^x = 2^n (1 + r + r^2 q(r)),  x = n log 2 + r,  |r| <= log(2) / 2

log 2 is a sum of two floats, and n times each float is subtracted from x. The product with the first float is exact
(Cody and Waite). The polynomial q approximates the exponential with a relative error of 2^-56.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tiduc.backends.iree.emit.emitter import Emitter, signless
from tiduc.dialect.ops.ir_types import IrValue
from tiduc.dialect.shapes.types import element


def hexadecimal(numbers: str) -> tuple[float, ...]:
    """Parses a text of hexadecimal floats, separated by spaces."""
    return tuple(map(float.fromhex, numbers.split()))


_Q = hexadecimal("""
    0x1p-1 0x1.5555555555557p-3 0x1.5555555555556p-5 0x1.1111111110054p-7 0x1.6c16c16c16287p-10
    0x1.a01a01ac3191dp-13 0x1.a01a01a702926p-16 0x1.71de0149347acp-19 0x1.27e4dadfa9832p-22
    0x1.af4fcb21c5beep-26 0x1.1f7416719d77ep-29
""")
"""The coefficients of q(r), which approximates (e^r - 1 - r) / r^2 for |r| <= log(2) / 2."""


LOG_2 = hexadecimal("0x1.62e42feep-1 0x1.a39ef35793c76p-33")
"""Two floats whose sum is log 2: its leading 31 bits, and the remainder."""

WHOLE = 1.5 * 2.0**52
"""A number near which adjacent floats differ by 1, so that adding it to x rounds x to an integer.

The bits of these floats, read as integers, are consecutive.
"""

_BIAS = 1023 << 52  # the bits of the f64 number 1.0


class Powers(NamedTuple):
    """The parts of e^x = 2^n (1 + `less`): 2^n = `first` * `second`, `inverse` = 1 / `second`, and `less` = e^r - 1.

    2^n has two factors because it may overflow or underflow.
    """

    first: IrValue
    second: IrValue
    inverse: IrValue
    less: IrValue


def exponential_minus_one(b: Emitter, x: IrValue) -> IrValue:
    """e^x - 1 for f64, as 2^n (e^r - 1) + (2^n - 1).

    Both terms are divided by `second`, a factor of 2^n, before they are added. The sum is then multiplied by `second`.
    Otherwise, 2^n might overflow although the result does not.
    """
    powers = exponential_parts(b, x)
    rest = b.subtract(powers.first, powers.inverse)
    y = b.multiply(b.add(b.multiply(powers.first, powers.less), rest), powers.second)
    return unless_zero(b, x, y)


def polynomial(b: Emitter, x: IrValue, coefficients: Sequence[float]) -> IrValue:
    """Evaluates a polynomial at x by Horner's rule. The constant term is the first of the coefficients."""
    y = b.constant(coefficients[-1], x)
    for coefficient in coefficients[-2::-1]:
        y = b.add(b.multiply(y, x), coefficient)
    return y


def unless_zero(b: Emitter, x: IrValue, y: IrValue) -> IrValue:
    """y where x is not zero, and x where x is zero, so that f(-0) = -0 for an odd function y = f(x)."""
    return b.select(b.compare(x, 0, "EQ"), x, y)


def with_sign(b: Emitter, y: IrValue, x: IrValue) -> IrValue:
    """Gives each element of y the sign of the element of x. y must not be negative."""
    width = element(x).width
    size, bits = (b.bitcast(v, signless(width)) for v in (y, x))
    return b.bitcast(b.or_(size, b.and_(bits, -(1 << (width - 1)))), element(y))


def exponential_parts(b: Emitter, x: IrValue) -> Powers:
    """Computes the parts of e^x. x is first clamped to [-746, 710]: e^x is 0 for smaller x, infinite for larger x."""
    for bound, direction in ((-746.0, "LT"), (710.0, "GT")):  # comparisons with NaN are false
        x = b.select(b.compare(x, bound, direction), b.constant(bound, x), x)
    n = b.subtract(b.add(b.multiply(x, 1 / sum(LOG_2)), WHOLE), WHOLE)
    r = x
    for part in LOG_2:
        r = b.subtract(r, b.multiply(n, part))
    less = b.add(r, b.multiply(b.multiply(r, r), polynomial(b, r, _Q)))
    half = b.add(b.multiply(n, 0.5), WHOLE)
    first = _shifted(b, half)
    second = _shifted(b, b.add(b.subtract(n, b.subtract(half, WHOLE)), WHOLE))
    powers = (b.add(first, _BIAS), b.add(second, _BIAS), b.subtract(b.constant(_BIAS, second), second))
    first, second, inverse = (b.bitcast(bits, element(x)) for bits in powers)
    return Powers(first, second, inverse, less)


def _shifted(b: Emitter, whole: IrValue) -> IrValue:
    """Returns k << 52 as i64, where `whole` = `WHOLE` + k.

    The sum of the result and the bits of 1.0 is the bits of 2^k.
    """
    bits = b.bitcast(whole, signless(64))
    return b.shift_left(bits, 52)
