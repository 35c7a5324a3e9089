"""sine and cosine of f32 where the target multiplies and adds in one instruction, which rounds once: half the code.

In f64: x / pi less the nearest whole number k is g, of which a polynomial in g**2 gives sin(pi g), and k the sign. With
one rounding, x times the leading 53 bits of 1 / pi less k is exact enough to have one part more be all that follows.

Bits of 1 / pi that give whole turns are left out, as in trigonometry.py. Results are within 0.501 units in the last
place, as those there.
"""

from math import ldexp
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter, signless
from tiduc.backends.iree.fast.exponentials import WHOLE
from tiduc.backends.iree.faults.turns import TURN

NEAR = 2.0**46
"""Below it arguments have all bits of 1 / pi."""
_REGIONS = (NEAR, 23), (2.0**69, 46), (2.0**92, 69), (2.0**115, 92)
"""From where on an argument leaves out how many bits of 1 / 2 pi."""

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
"""sin(pi g) / g for |g| <= 0.516, by powers of g**2, to a relative error of 2.6e-11, by a fit."""


def fused_sine(b: Emitter, x: Any, near: bool = False) -> Any:
    """sin(x), of f64 that were f32; with `near`, all are below `NEAR`."""
    first, second = _parts(b, x, near)
    shifted, taken = _half_turns(b, x, first)
    return _sine_of(b, _fused(b, x, second, _fused(b, x, first, taken)), _sign(b, shifted))


def fused_cosine(b: Emitter, x: Any, near: bool = False) -> Any:
    """cos(x), which is the sine of half a half-turn more."""
    first, second = _parts(b, x, near)
    whole, more = b.like(WHOLE, x), b.like(0.5, x)
    shifted = b.add(_fused(b, x, first, more), whole)
    taken = b.subtract(more, b.subtract(shifted, whole))
    return _sine_of(b, _fused(b, x, second, _fused(b, x, first, taken)), _sign(b, shifted))


def fused_both(b: Emitter, x: Any, near: bool = False) -> tuple[Any, Any]:
    """sin(x) and cos(x), from one number of half-turns; the cosine of g of them is the sine of 1/2 - |g|."""
    first, second = _parts(b, x, near)
    shifted, taken = _half_turns(b, x, first)
    sign, most = _sign(b, shifted), _fused(b, x, first, taken)
    # 1/2 - |g| may be as small as g, so that it is made of the parts: what is most of g is exact next to 1/2.
    left = b.subtract(b.like(0.5, x), b.abs(most))
    bits, others = (b.bitcast(v, signless(64)) for v in (x, most))
    turned = b.emit("stablehlo.xor", (bits, b.and_(others, b.like(-(1 << 63), bits))), bits.type)
    rest = b.negate(b.bitcast(turned, ir.F64Type.get()))
    return (
        _sine_of(b, _fused(b, x, second, most), sign),
        _sine_of(b, _fused(b, rest, second, left), sign),
    )


def _half_turns(b: Emitter, x: Any, first: Any) -> tuple[Any, Any]:
    """The whole number next to x / pi, in the last bits of a number next to `WHOLE`, and less than nothing by it."""
    whole = b.like(WHOLE, x)
    shifted = _fused(b, x, first, whole)
    return shifted, b.negate(b.subtract(shifted, whole))


def _sign(b: Emitter, shifted: Any) -> Any:
    """The last bit of k, where the sign is."""
    bits = b.bitcast(shifted, signless(64))
    return b.emit("stablehlo.shift_left", (bits, b.like(63, bits)), bits.type)


def _sine_of(b: Emitter, g: Any, sign: Any) -> Any:
    """sin(pi g), of the other sign where that bit is set."""
    square, y = b.multiply(g, g), b.like(_SINE[-1], g)
    for coefficient in _SINE[-2::-1]:
        y = _fused(b, y, square, b.like(coefficient, g))
    y = b.bitcast(b.multiply(y, g), signless(64))
    return b.bitcast(b.emit("stablehlo.xor", (y, sign), y.type), ir.F64Type.get())


def _parts(b: Emitter, x: Any, near: bool) -> tuple[Any, Any]:
    """1 / pi for each argument, as a sum, without what gives whole turns."""
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
    """1 / pi as two floats, the bits of 1 / 2 pi left out that give whole turns; both positive, so that -0 stays."""
    count = 2 * (TURN % 2 ** (256 - left_out))
    below = count.bit_length() - 53
    return ldexp(count >> below, below - 256), ldexp(float(count % 2**below), -256)


def _fused(b: Emitter, x: Any, y: Any, z: Any) -> Any:
    """x y + z, rounded once."""
    return b.emit("math.fma", (x, y, z), x.type)
