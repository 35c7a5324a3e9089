"""Accurate sine, cosine and tangent of f32 for SPIR-V, whose own functions have errors of 2^-11 and more.

Everything is computed in f32 and 32-bit integers, which all devices have. For |x| below 2^13, multiples of
pi / 2 are subtracted in four parts, three of which have exact products (Cody and Waite). For larger |x|, the
exponent selects the bits of 1 / 2 pi that give fractions of a turn; these are multiplied by the 24 bits of x,
modulo a turn (Payne and Hanek, "Radian reduction for trigonometric functions", 1983). Taylor polynomials give
the sine and cosine of the remainder, at most pi / 4. Results are within 3 units in the last place, and tan
within 5 where division rounds as on CPUs.
"""

from collections.abc import Sequence
from math import factorial
from typing import Any

import numpy as np
from torch_mlir import ir

from tiduc.backends.iree.emitter import ON_SPIRV, Emitter, legalize, signless
from tiduc.backends.iree.fast.exponentials import polynomial
from tiduc.backends.iree.fault import wrong
from tiduc.backends.iree.faults.trigonometry import TURN
from tiduc.backends.iree.missing.spirv import refuse_f64
from tiduc.dialect.types import element, is_float

_NEAR = 2.0**13
_QUARTER = tuple(map(float.fromhex, ("0x1.92p+0", "0x1.fb4p-12", "0x1.444p-24", "0x1.68c234p-39")))
"""pi / 2, in three parts of 11 bits and a remainder."""
_WORDS = np.frombuffer((TURN >> 32).to_bytes(32), ">i4").tolist()
"""The bits of 1 / 2 pi behind 32 zero bits, in words of 32, as signed integers."""


@legalize("stablehlo.sine", "stablehlo.cosine", "stablehlo.tan", where=ON_SPIRV)
@wrong(
    "SPIR-V allows errors of 2^-11; emits a range reduction and polynomials in f32. tan is sin / cos.",
    "vulkan/{op}",
)
def trigonometric(b: Emitter, op: Any) -> Sequence[Any] | None:
    """A range reduction and polynomials in f32; tan is sin / cos."""
    given = op.operands[0]
    refuse_f64(op)
    if not is_float(given):
        return None
    x = b.convert(given, ir.F32Type.get())
    r, quarter = _reduced(b, x)
    square = b.multiply(r, r)
    sine = b.multiply(r, polynomial(b, square, [(-1) ** i / factorial(2 * i + 1) for i in range(6)]))
    cosine = polynomial(b, square, [(-1) ** i / factorial(2 * i) for i in range(6)])
    odd = _has(b, quarter, 1)
    s, c = b.select(odd, cosine, sine), b.select(odd, sine, cosine)
    if op.name == "stablehlo.tan":
        y = b.divide(b.select(odd, b.negate(s), s), c)
    elif op.name == "stablehlo.sine":
        y = b.select(_has(b, quarter, 2), b.negate(s), s)
    else:
        y = b.select(_has(b, b.add(quarter, b.like(1, quarter)), 2), b.negate(c), c)
    finite = b.compare(b.abs(x), b.like(np.inf, x), "LT")
    return [b.convert(b.select(finite, y, b.like(np.nan, x)), element(given))]


def _reduced(b: Emitter, x: Any) -> tuple[Any, Any]:
    """r and n with x = r + n pi / 2 and |r| at most about pi / 4; n modulo four is in the last two bits of n."""
    i32 = signless(32)
    far = b.compare(b.abs(x), b.like(_NEAR, x), "GE")
    near = b.select(far, b.like(0, x), x)
    count = b.round_nearest_even(b.multiply(near, b.like(2 / np.pi, x)))
    r = near
    for part in _QUARTER:
        r = b.subtract(r, b.multiply(count, b.like(part, x)))
    of_size, quarter = _far(b, b.bitcast(x, i32))
    below = b.compare(x, b.like(0, x), "LT")
    return (
        b.select(far, b.select(below, b.negate(of_size), of_size), r),
        b.select(far, b.select(below, b.negate(quarter), quarter), b.convert(count, i32)),
    )


def _far(b: Emitter, x: Any) -> tuple[Any, Any]:
    """`_reduced` for |x| >= 2^13, given by the bits of x; the sign of x is ignored.

    The fraction of a turn has 64 bits: the upper 32 in `first`, the lower 32 in `second`.
    """
    f32 = ir.F32Type.get()
    exponent = _and(b, _right(b, x, 23), 0xFF)
    m = b.or_(_and(b, x, 0x7FFFFF), b.like(0x800000, x))
    place = b.maximum(b.subtract(exponent, b.like(150 - 32, x)), b.like(0, x))  # of the first bit used
    number, shift = _right(b, place, 5), _and(b, place, 31)
    words = [_word(b, number, shift, i) for i in range(3)]
    low, high = b.multiply(m, words[1]), _high(b, m, words[2])
    second = b.add(low, high)
    carry = _right(b, b.or_(b.and_(low, high), b.and_(b.or_(low, high), b.not_(second))), 31)
    first = b.add(b.add(b.multiply(m, words[0]), _high(b, m, words[1])), carry)
    quarter = _right(b, b.add(first, b.like(1 << 29, x)), 30)
    left = b.subtract(first, _left(b, quarter, 30))
    r = b.add(
        b.multiply(b.convert(left, f32), b.like(2 * np.pi * 2.0**-32, b.convert(x, f32))),
        b.multiply(b.convert(_right(b, second, 8), f32), b.like(2 * np.pi * 2.0**-56, b.convert(x, f32))),
    )
    return r, quarter


def _word(b: Emitter, number: Any, shift: Any, i: int) -> Any:
    """32 bits of 1 / 2 pi, starting `shift` bits into the word `number + i`."""
    word, following = (_looked_up(b, number, _WORDS[k:]) for k in (i, i + 1))
    rest = b.subtract(b.like(32, shift), shift)
    later = b.emit("stablehlo.shift_right_logical", (following, rest), shift.type)
    return b.or_(b.emit("stablehlo.shift_left", (word, shift), shift.type), later)


def _looked_up(b: Emitter, number: Any, words: Sequence[int]) -> Any:
    """`words[number]`, for a number up to 4."""
    y = b.like(words[0], number)
    for i, word in enumerate(words[1:5], 1):
        y = b.select(b.compare(number, b.like(i, number), "EQ"), b.like(word, number), y)
    return y


def _high(b: Emitter, m: Any, word: Any) -> Any:
    """The bits of m times a 32-bit word above the lowest 32, for m < 2^24; products of halves fit 32 bits."""
    m1, m0, w1, w0 = _right(b, m, 12), _and(b, m, 0xFFF), _right(b, word, 16), _and(b, word, 0xFFFF)
    lowest, low, inner, outer = (b.multiply(u, v) for u, v in ((m0, w0), (m1, w0), (m0, w1), (m1, w1)))
    inner = b.add(b.add(inner, _right(b, lowest, 16)), _right(b, low, 4))
    inner = b.add(inner, _right(b, b.add(_and(b, lowest, 0xFFFF), _left(b, _and(b, low, 15), 12)), 16))
    return b.add(_right(b, outer, 4), _right(b, b.add(_left(b, _and(b, outer, 15), 12), inner), 16))


def _and(b: Emitter, x: Any, mask: int) -> Any:
    return b.and_(x, b.like(mask, x))


def _right(b: Emitter, x: Any, places: int) -> Any:
    return b.emit("stablehlo.shift_right_logical", (x, b.like(places, x)), x.type)


def _left(b: Emitter, x: Any, places: int) -> Any:
    return b.emit("stablehlo.shift_left", (x, b.like(places, x)), x.type)


def _has(b: Emitter, x: Any, bit: int) -> Any:
    return b.compare(_and(b, x, bit), b.like(0, x), "NE")
