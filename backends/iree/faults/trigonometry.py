"""sine, cosine and tangent of f32 on CPUs: IREE's error grows with the argument, this one does not.

Everything is computed in f64. With g = x / 2 pi less the nearest whole number, a polynomial in g**2 gives
sin(2 pi g). All arguments take the same path and no function is called, so that the code vectorizes. Results
are within 0.501 units in the last place of f32, and tan within 0.502; rounding alone takes 0.5.

The reduction is Payne and Hanek's ("Radian reduction for trigonometric functions", 1983). It leaves out the
bits of 1 / 2 pi that give whole turns: those whose product with the last bit of x is an integer. Of the next
bits, two parts of 26 bits have exact products with the 24 bits of x, and the sum of the products is exact. A
third part has the remaining bits, for sums that nearly cancel.

On targets with a fused multiply-add, fused_trigonometry.py needs fewer ops.
"""

from collections.abc import Callable, Sequence
from math import ldexp
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import ON_CPUS, Emitter, legalize
from tiduc.backends.iree.fault import wrong
from tiduc.backends.iree.faults.fused_trigonometry import TURN, fused_cosine, fused_sine
from tiduc.dialect.types import element, is_float

_REGIONS = (0, 2), (50, 27), (76, 53), (102, 79)
"""Pairs (power, count): an argument from 2^power on leaves out `count` bits of 1 / 2 pi."""

_SINE = tuple(
    map(
        float.fromhex,
        (
            "0x1.921fb5441e48dp+2",
            "-0x1.4abbce4f1a192p+5",
            "0x1.466bbfc24bc47p+6",
            "-0x1.32d1120122757p+6",
            "0x1.500ff7dfa5c5cp+5",
            "-0x1.cc3458a7f63f6p+3",
        ),
    )
)
"""Coefficients of sin(2 pi g) / g for |g| <= 1/4, by powers of g**2; a fit with relative error 2.2e-11."""


@legalize("stablehlo.sine", "stablehlo.cosine", "stablehlo.tan", where=ON_CPUS)
@wrong(
    "The error grows with the argument; emits an exact range reduction and a polynomial. tan is sin / cos.",
    "{op}",
)
def trigonometric(b: Emitter, op: Any) -> Sequence[Any] | None:
    """An exact range reduction and a polynomial in f64; tan is sin / cos."""
    x = op.operands[0]
    if not is_float(x) or element(x).width > 32:
        return None
    wide = b.convert(x, ir.F64Type.get())
    if op.name == "stablehlo.cosine":
        # cos(-x) shares no op with sin(x): IREE would compute shared ops first, and store the results.
        wide = b.negate(wide)
    sine, cosine = _both(b, wide, isinstance(element(x), ir.F16Type))
    if op.name == "stablehlo.cosine":
        y = cosine()
    elif op.name == "stablehlo.sine":
        y = sine()
    else:
        y = b.divide(sine(), cosine())
    return [b.convert(y, element(x))]


def _both(b: Emitter, x: Any, small: bool) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Functions that emit the sine and the cosine; `small` promises arguments below 2^16."""
    if b.fused:
        return lambda: fused_sine(b, x, small), lambda: fused_cosine(b, x, small)
    g, rest = _turns(b, x)
    return lambda: _sine(b, g, rest), lambda: _cosine(b, g, rest)


def _turns(b: Emitter, x: Any) -> tuple[Any, Any]:
    """x / 2 pi modulo 1, in [-1/2, 1/2], as the sum of a multiple of 2^-54 and a small remainder."""
    size = b.abs(x)
    first, second, third = (b.like(part, x) for part in _parts(_REGIONS[0][1]))
    for power, left_out in _REGIONS[1:]:
        far = b.compare(size, b.like(2.0**power, x), "GE")
        first, second, third = (
            b.select(far, b.like(part, x), near)
            for part, near in zip(_parts(left_out), (first, second, third), strict=True)
        )
    g = b.add(_fraction(b, b.multiply(x, first)), _fraction(b, b.multiply(x, second)))
    rest = b.multiply(x, third)
    return b.subtract(g, _whole(b, b.add(g, rest))), rest


def _parts(left_out: int) -> tuple[float, float, float]:
    """1 / 2 pi without the first `left_out` bits: two parts of 26 bits, and the bits that follow."""
    ends = left_out + 26, left_out + 52, left_out + 152
    below = [TURN >> 256 - end for end in ends]
    counts = [below[0] % 2**26, below[1] % 2**26, below[2] % 2**100]
    first, second, third = (ldexp(count, -end) for count, end in zip(counts, ends, strict=True))
    return first, second, third


def _fraction(b: Emitter, x: Any) -> Any:
    return b.subtract(x, _whole(b, x))


def _whole(b: Emitter, x: Any) -> Any:
    """x rounded to a whole number, |x| < 2^51; IREE expands round_nearest_even to dozens of instructions."""
    last = b.like(1.5 * 2.0**52, x)  # floats near this one are 1 apart
    return b.subtract(b.add(x, last), last)


def _sine(b: Emitter, g: Any, rest: Any) -> Any:
    """The sine of g + rest turns; beyond a quarter turn, that of half a turn less g + rest."""
    near, zero = b.add(g, rest), b.like(0, g)
    half = b.select(b.compare(near, zero, "LT"), b.like(-0.5, g), b.like(0.5, g))
    beyond = b.compare(b.abs(near), b.like(0.25, g), "GT")
    return _polynomial(b, b.select(beyond, b.subtract(b.subtract(half, g), rest), near))


def _cosine(b: Emitter, g: Any, rest: Any) -> Any:
    """The cosine of g + rest turns, as the sine of a quarter turn less |g + rest|."""
    quarter = b.like(0.25, g)
    below = b.compare(b.add(g, rest), b.like(0, g), "LT")
    return _polynomial(
        b, b.select(below, b.add(b.add(quarter, g), rest), b.subtract(b.subtract(quarter, g), rest))
    )


def _polynomial(b: Emitter, g: Any) -> Any:
    """sin(2 pi g) for |g| <= 1/4."""
    square, y = b.multiply(g, g), b.like(_SINE[-1], g)
    for coefficient in _SINE[-2::-1]:
        y = b.add(b.multiply(y, square), b.like(coefficient, g))
    return b.multiply(y, g)
