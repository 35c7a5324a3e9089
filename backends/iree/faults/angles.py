"""Computes sine, cosine and tangent of f32 accurately, on targets other than CPUs.

On CUDA, IREE subtracts a multiple of pi / 2 from the argument, computed as one rounded product, so errors grow with the
argument. SPIR-V's functions have errors of 2^-11 and more.

Here, all arithmetic is in f32 and 32-bit integers, which all devices have. For |x| below 2^13, pi / 2 is divided into a
sum of four numbers, whose multiples are subtracted one after the other; the first three products are exact (Cody and
Waite). For larger |x|, the exponent of x selects the bits of 1 / (2 pi) that matter modulo a turn, and these bits are
multiplied by the 24 bits of x (Payne and Hanek, "Radian reduction for trigonometric functions", 1983). Taylor
polynomials give the sine and cosine of the remainder, which is at most pi / 4. Errors are at most 3 units in the last
place, and 5 for tan if division rounds correctly.
"""

from collections.abc import Sequence
from math import factorial

import numpy as np
from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import ON_OTHERS, Emitter, legalize, signless
from tiduc.backends.iree.emit.polynomials import hexadecimal, polynomial
from tiduc.backends.iree.fault import wrong
from tiduc.backends.iree.faults.trigonometry import TURN
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import bits, element, is_float

_NEAR = 2.0**13
_QUARTER = hexadecimal("0x1.92p+0 0x1.fb4p-12 0x1.444p-24 0x1.68c234p-39")
"""Four numbers whose sum is pi / 2: three numbers of 11 bits, and the rest."""
_WORDS = np.frombuffer((TURN >> 32).to_bytes(32), ">i4").tolist()
"""32 zero bits followed by the bits of 1 / (2 pi), as a list of 32-bit words, which are signed integers."""


@legalize("stablehlo.sine", "stablehlo.cosine", "stablehlo.tan", where=ON_OTHERS)
@wrong(
    "On GPUs, errors grow with the argument, or are 2^-11; tiduc emits a range reduction and polynomials.",
    "vulkan/{op}",
)
def trigonometric(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Computes the function by a range reduction and polynomials in f32. Computes tan as sin / cos.

    Returns None for f64 and complex types.
    """
    given = op.operands[0]
    # CUDA and HIP have accurate functions of f64; SPIR-V has none.
    if not is_float(given) or bits(given) == 64:
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
        y = b.select(_has(b, b.add(quarter, 1), 2), b.negate(c), c)
    finite = b.compare(b.abs(x), np.inf, "LT")
    return [b.convert(b.select(finite, y, np.nan), element(given))]


def _reduced(b: Emitter, x: IrValue) -> tuple[IrValue, IrValue]:
    """Returns r and n with x = r + n pi / 2 and |r| at most about pi / 4. Only the last two bits of n are correct."""
    i32 = signless(32)
    far = b.compare(b.abs(x), _NEAR, "GE")
    near = b.select(far, b.constant(0, x), x)
    count = b.round_nearest_even(b.multiply(near, 2 / np.pi))
    r = near
    for part in _QUARTER:
        r = b.subtract(r, b.multiply(count, part))
    of_size, quarter = _far(b, b.bitcast(x, i32))
    below = b.compare(x, 0, "LT")
    return (
        b.select(far, b.select(below, b.negate(of_size), of_size), r),
        b.select(far, b.select(below, b.negate(quarter), quarter), b.convert(count, i32)),
    )


def _far(b: Emitter, x: IrValue) -> tuple[IrValue, IrValue]:
    """Computes the results of `_reduced` for |x| >= 2^13, without the sign of x. The argument is the bits of x, as i32.

    |x| / (2 pi) modulo 1 is computed as a fraction of 64 bits: `first` has the upper 32 bits, `second` the lower ones.
    """
    f32 = ir.F32Type.get()
    exponent = b.and_(b.shift_right_logical(x, 23), 0xFF)
    m = b.or_(b.and_(x, 0x7FFFFF), 0x800000)
    place = b.maximum(b.subtract(exponent, 150 - 32), 0)  # the first bit of `_WORDS` that is used
    number, shift = b.shift_right_logical(place, 5), b.and_(place, 31)
    words = [_word(b, number, shift, i) for i in range(3)]
    low, high = b.multiply(m, words[1]), _high(b, m, words[2])
    second = b.add(low, high)
    carries = b.or_(b.and_(low, high), b.and_(b.or_(low, high), b.not_(second)))
    carry = b.shift_right_logical(carries, 31)
    first = b.add(b.add(b.multiply(m, words[0]), _high(b, m, words[1])), carry)
    quarter = b.shift_right_logical(b.add(first, 1 << 29), 30)
    left, rest = b.subtract(first, b.shift_left(quarter, 30)), b.shift_right_logical(second, 8)
    of_left = b.multiply(b.convert(left, f32), 2 * np.pi * 2.0**-32)
    return b.add(of_left, b.multiply(b.convert(rest, f32), 2 * np.pi * 2.0**-56)), quarter


def _word(b: Emitter, number: IrValue, shift: IrValue, i: int) -> IrValue:
    """The 32 bits of `_WORDS` that begin at bit `shift` of the word `number + i`."""
    word, following = (_looked_up(b, number, _WORDS[k:]) for k in (i, i + 1))
    rest = b.subtract(b.constant(32, shift), shift)
    return b.or_(b.shift_left(word, shift), b.shift_right_logical(following, rest))


def _looked_up(b: Emitter, number: IrValue, words: Sequence[int]) -> IrValue:
    """Computes `words[number]` by selects. The number must be at most 4."""
    y = b.constant(words[0], number)
    for i, word in enumerate(words[1:5], 1):
        y = b.select(b.compare(number, i, "EQ"), b.constant(word, number), y)
    return y


def _high(b: Emitter, m: IrValue, word: IrValue) -> IrValue:
    """Computes the upper half of the 64-bit product of m and a 32-bit word, where m < 2^24.

    Uses products of the halves of both numbers, because these products have at most 32 bits.
    """
    right, left = b.shift_right_logical, b.shift_left
    m1, m0, w1, w0 = right(m, 12), b.and_(m, 0xFFF), right(word, 16), b.and_(word, 0xFFFF)
    lowest, low, inner, outer = (b.multiply(u, v) for u, v in ((m0, w0), (m1, w0), (m0, w1), (m1, w1)))
    inner = b.add(b.add(inner, right(lowest, 16)), right(low, 4))
    inner = b.add(inner, right(b.add(b.and_(lowest, 0xFFFF), left(b.and_(low, 15), 12)), 16))
    return b.add(right(outer, 4), right(b.add(left(b.and_(outer, 15), 12), inner), 16))


def _has(b: Emitter, x: IrValue, bit: int) -> IrValue:
    """Whether a bit of x is set."""
    return b.compare(b.and_(x, bit), 0, "NE")
