"""sine, cosine and tangent of f32 where code is SPIR-V, whose functions have errors of 2^-11, more for large arguments.

In f32 and 32-bit integers, which is what all have. Of |x| below 2^13 multiples of pi / 2 are taken away, in four parts
of which three have exact products (Cody and Waite). Beyond, the bits of 1 / 2 pi that give turns below a whole one are
looked up by the exponent, and multiplied by the 24 bits of x, modulo a turn (Payne and Hanek, "Radian reduction for
trigonometric functions", 1983). Taylor polynomials give the sine and cosine of what is left, at most pi / 4. Results
are within 3 units in the last place, of tan 5, where division rounds as it does on CPUs.
"""

from collections.abc import Sequence
from math import factorial
from typing import Any

import numpy as np
from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter, legalize, signless
from tiduc.backends.iree.missing.spirv import refuse_f64
from tiduc.dialect.types import element, is_float

_NEAR = 2.0**13
_QUARTER = tuple(map(float.fromhex, ("0x1.92p+0", "0x1.fb4p-12", "0x1.444p-24", "0x1.68c234p-39")))
"""pi / 2, in three parts of 11 bits and what follows."""
_TURN = 0x28BE60DB9391054A7F09D5F47D4D377036D8A5664F10E4107F9458EA
"""1 / 2 pi, as so many parts of 2^224."""
_WORDS = [0, *(_TURN >> shift & 0xFFFFFFFF for shift in range(192, -1, -32))]


@legalize("stablehlo.sine", "stablehlo.cosine", "stablehlo.tan", spirv=True)
def trigonometric(b: Emitter, op: Any) -> Sequence[Any] | None:
    """Vulkan asks little of them: polynomials of the argument less its quarter turns, in f32; tan is sin / cos."""
    given = op.operands[0]
    refuse_f64(op)
    if not is_float(given):
        return None
    x = b.convert(given, ir.F32Type.get())
    r, quarter = _reduced(b, x)
    square = b.multiply(r, r)
    sine = b.multiply(r, _polynomial(b, square, [(-1) ** i / factorial(2 * i + 1) for i in range(6)]))
    cosine = _polynomial(b, square, [(-1) ** i / factorial(2 * i) for i in range(6)])
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


def _polynomial(b: Emitter, x: Any, coefficients: Sequence[float]) -> Any:
    """By Horner's rule, the constant first."""
    y = b.like(coefficients[-1], x)
    for coefficient in coefficients[-2::-1]:
        y = b.add(b.multiply(y, x), b.like(coefficient, x))
    return y


def _reduced(b: Emitter, x: Any) -> tuple[Any, Any]:
    """What x is beyond a number of quarter turns, and that number, modulo four, in its last two bits."""
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
    """The same of |x|, 2^13 and more, given by its bits: a fraction of a turn of 64 bits, the first 32 apart."""
    f32 = ir.F32Type.get()
    exponent = _and(b, _right(b, x, 23), 0xFF)
    m = b.or_(_and(b, x, 0x7FFFFF), b.like(0x800000, x))
    place = b.maximum(
        b.subtract(exponent, b.like(150 - 32, x)), b.like(0, x)
    )  # of the first bit, 32 zeros before all
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
    """32 bits of 1 / 2 pi, `shift` bits into the word `number + i`."""
    word, following = (_looked_up(b, number, _WORDS[k:]) for k in (i, i + 1))
    rest = b.subtract(b.like(32, shift), shift)
    later = b.emit("stablehlo.shift_right_logical", (following, rest), shift.type)
    return b.or_(b.emit("stablehlo.shift_left", (word, shift), shift.type), later)


def _looked_up(b: Emitter, number: Any, words: Sequence[int]) -> Any:
    """The word of that number, up to 4."""
    y = b.like(_signed(words[0]), number)
    for i, word in enumerate(words[1:5], 1):
        y = b.select(b.compare(number, b.like(i, number), "EQ"), b.like(_signed(word), number), y)
    return y


def _signed(word: int) -> int:
    return word - (word >> 31 << 32)


def _high(b: Emitter, m: Any, word: Any) -> Any:
    """The bits of m times a word beyond the first 32, m below 2^24: by halves, whose products fit."""
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
