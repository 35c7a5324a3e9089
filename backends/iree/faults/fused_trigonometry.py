"""sine and cosine of f32 on targets with a fused multiply-add, in half the code of trigonometry.py.

Everything is computed in f64. With k the whole number nearest to x / pi and g = x / pi - k, a polynomial in
g**2 gives sin(pi g), and the parity of k gives the sign. A fused multiply-add rounds once, so that x times
the leading 53 bits of 1 / pi, less k, needs only one more part of 1 / pi.

Bits of 1 / pi that give whole turns are left out, as in trigonometry.py. Results are within 0.501 units in
the last place, as there.
"""

from math import ldexp
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter, signless
from tiduc.backends.iree.fast.exponentials import WHOLE

TURN = 0x28BE60DB9391054A7F09D5F47D4D377036D8A5664F10E4107F9458EAF7AEF158
"""1 / 2 pi, in units of 2^-256: it converts radians to turns."""
NEAR = 2.0**46
"""Arguments below this bound use all bits of 1 / pi."""
_REGIONS = (NEAR, 23), (2.0**69, 46), (2.0**92, 69), (2.0**115, 92)
"""Pairs (start, count): an argument from `start` on leaves out `count` bits of 1 / 2 pi."""

_SINE = tuple(
    map(
        float.fromhex,
        (
            "0x1.921fb54417a17p+1",
            "-0x1.4abbce4b90dcap+2",
            "0x1.466bbea9e665dp+1",
            "-0x1.32d0d848e21c9p-1",
            "0x1.50069635dec50p-4",
            "-0x1.cb29605f9e7c7p-8",
        ),
    )
)
"""Coefficients of sin(pi g) / g for |g| <= 0.516, by powers of g**2; a fit with relative error 2.6e-11."""


def fused_sine(b: Emitter, x: Any, near: bool = False) -> Any:
    """sin(x) for f64 numbers that were f32; `near` promises that all are below `NEAR`."""
    first, second = _parts(b, x, near)
    shifted, taken = _half_turns(b, x, first)
    return _sine_of(b, _fused(b, x, second, _fused(b, x, first, taken)), _sign(b, shifted))


def fused_cosine(b: Emitter, x: Any, near: bool = False) -> Any:
    """cos(x), as the sine of x + pi / 2."""
    first, second = _parts(b, x, near)
    whole, more = b.like(WHOLE, x), b.like(0.5, x)
    shifted = b.add(_fused(b, x, first, more), whole)
    taken = b.subtract(more, b.subtract(shifted, whole))
    return _sine_of(b, _fused(b, x, second, _fused(b, x, first, taken)), _sign(b, shifted))


def fused_both(b: Emitter, x: Any, near: bool = False) -> tuple[Any, Any]:
    """sin(x) and cos(x) from one range reduction; cos(pi g) is sin(pi (1/2 - |g|))."""
    first, second = _parts(b, x, near)
    shifted, taken = _half_turns(b, x, first)
    sign, most = _sign(b, shifted), _fused(b, x, first, taken)
    # 1/2 - |g| may be as small as g, so use the parts of g: 1/2 less the leading part of |g| is exact.
    left = b.subtract(b.like(0.5, x), b.abs(most))
    bits, others = (b.bitcast(v, signless(64)) for v in (x, most))
    turned = b.emit("stablehlo.xor", (bits, b.and_(others, b.like(-(1 << 63), bits))), bits.type)
    rest = b.negate(b.bitcast(turned, ir.F64Type.get()))
    return (_sine_of(b, _fused(b, x, second, most), sign), _sine_of(b, _fused(b, rest, second, left), sign))


def _half_turns(b: Emitter, x: Any, first: Any) -> tuple[Any, Any]:
    """The whole number k nearest to x / pi, in the last bits of `WHOLE` + k; and -k."""
    whole = b.like(WHOLE, x)
    shifted = _fused(b, x, first, whole)
    return shifted, b.negate(b.subtract(shifted, whole))


def _sign(b: Emitter, shifted: Any) -> Any:
    """The last bit of k, shifted to the sign bit."""
    bits = b.bitcast(shifted, signless(64))
    return b.emit("stablehlo.shift_left", (bits, b.like(63, bits)), bits.type)


def _sine_of(b: Emitter, g: Any, sign: Any) -> Any:
    """sin(pi g), negated where the bit `sign` is set."""
    square, y = b.multiply(g, g), b.like(_SINE[-1], g)
    for coefficient in _SINE[-2::-1]:
        y = _fused(b, y, square, b.like(coefficient, g))
    y = b.bitcast(b.multiply(y, g), signless(64))
    return b.bitcast(b.emit("stablehlo.xor", (y, sign), y.type), ir.F64Type.get())


def _parts(b: Emitter, x: Any, near: bool) -> tuple[Any, Any]:
    """1 / pi for each argument, as a sum of two parts, without the bits that give whole turns."""
    first, second = (b.like(part, x) for part in _split(0))
    if near:
        return first, second
    size = b.abs(x)
    for start, left_out in _REGIONS:
        far = b.compare(size, b.like(start, x), "GE")
        first, second = (
            b.select(far, b.like(part, x), old)
            for part, old in zip(_split(left_out), (first, second), strict=True)
        )
    return first, second


def _split(left_out: int) -> tuple[float, float]:
    """1 / pi as two floats, without the bits of 1 / 2 pi that give whole turns; both positive, to keep -0."""
    count = 2 * (TURN % 2 ** (256 - left_out))
    below = count.bit_length() - 53
    return ldexp(count >> below, below - 256), ldexp(float(count % 2**below), -256)


def _fused(b: Emitter, x: Any, y: Any, z: Any) -> Any:
    """x y + z, rounded once."""
    return b.emit("math.fma", (x, y, z), x.type)
