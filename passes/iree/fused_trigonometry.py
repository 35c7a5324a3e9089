"""sine and cosine of f32 where the target multiplies and adds in one instruction, which rounds once: half the code.

In f64: x / pi less the nearest whole number k is g, of which a polynomial in g**2 gives sin(pi g), and k the sign. With
one rounding, x times the leading 53 bits of 1 / pi less k is exact enough to have one part more be all that follows.

Bits of 1 / pi that give whole turns are left out, as in trigonometry.py. Results are within 0.501 units in the last
place, as those there.
"""

from math import ldexp
from typing import Any

from torch_mlir import ir

from tiduc.passes.iree.emitter import Emitter, signless
from tiduc.passes.iree.exponentials import WHOLE
from tiduc.passes.iree.turns import TURN

_REGIONS = (0, 0), (46, 23), (69, 46), (92, 69), (115, 92)
"""From which power of two on an argument leaves out how many bits of 1 / 2 pi."""

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


def fused_sine(b: Emitter, x: Any) -> Any:
    """sin(x), of f64 that were f32."""
    return _of_half_turns(b, x, None)


def fused_cosine(b: Emitter, x: Any) -> Any:
    """cos(x), which is the sine of half a half-turn more."""
    return _of_half_turns(b, x, 0.5)


def _of_half_turns(b: Emitter, x: Any, more: float | None) -> Any:
    """sin(x + more pi)."""
    first, second = _parts(b, x)
    whole = b.like(WHOLE, x)
    if more is None:
        shifted = _fused(b, x, first, whole)
        taken = b.negate(b.subtract(shifted, whole))
    else:
        shifted = b.add(_fused(b, x, first, b.like(more, x)), whole)
        taken = b.subtract(b.like(more, x), b.subtract(shifted, whole))
    g = _fused(b, x, second, _fused(b, x, first, taken))
    square, y = b.multiply(g, g), b.like(_SINE[-1], x)
    for coefficient in _SINE[-2::-1]:
        y = _fused(b, y, square, b.like(coefficient, x))
    # The last bit of k becomes a sign bit.
    bits = b.bitcast(shifted, signless(64))
    odd = b.emit("stablehlo.shift_left", (bits, b.like(63, bits)), bits.type)
    y = b.bitcast(b.multiply(y, g), signless(64))
    return b.bitcast(b.emit("stablehlo.xor", (y, odd), y.type), ir.F64Type.get())


def _parts(b: Emitter, x: Any) -> tuple[Any, Any]:
    """1 / pi for each argument, as a sum, without what gives whole turns."""
    size = b.abs(x)
    first, second = (b.like(part, x) for part in _split(0))
    for power, left_out in _REGIONS[1:]:
        far = b.compare(size, b.like(2.0**power, x), "GE")
        near = first, second
        first, second = (
            b.select(far, b.like(part, x), old) for part, old in zip(_split(left_out), near, strict=True)
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
