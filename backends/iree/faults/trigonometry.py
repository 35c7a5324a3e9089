"""Emits sine, cosine and tangent of f32 for CPUs. Unlike IREE's, their errors do not grow with the argument.

All arithmetic is in f64. Let k be the integer nearest to x / pi, and g = x / pi - k. A polynomial in g**2 gives sin(pi
g), and the parity of k gives the sign. The code has no branches and no function calls, so it vectorizes. Errors are at
most 0.501 units in the last place of f32, and 0.502 for tan; rounding alone takes 0.5.

The reduction is Payne and Hanek's ("Radian reduction for trigonometric functions", 1983). 1 / pi is a sum of parts. The
first bits of 1 / pi are omitted if x times these bits is an even integer, because such an integer is a number of whole
turns. x times the leading part, minus k, is exact up to one rounding. With a fused multiply-add, the leading part has
53 bits. Without one, there are two leading parts of 26 and 27 bits, whose products with the 24 bits of x are exact. The
last part has the remaining bits, which matter if x / pi and k nearly cancel.
"""

from collections.abc import Iterable, Sequence
from math import ldexp

from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import ON_CPUS, Emitter, legalize, signless
from tiduc.backends.iree.emit.polynomials import WHOLE, hexadecimal
from tiduc.backends.iree.fault import wrong
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import element, is_float

TURN = 0x28BE60DB9391054A7F09D5F47D4D377036D8A5664F10E4107F9458EAF7AEF158
"""1 / (2 pi) in units of 2^-256. A product with 1 / (2 pi) converts radians to turns."""
_REGIONS = (2.0**46, 23), (2.0**69, 46), (2.0**92, 69), (2.0**115, 92)
"""Pairs (start, count): for |x| >= start, the first `count` bits of 1 / (2 pi) are omitted."""

_SINE = hexadecimal("""
    0x1.921fb54417a17p+1 -0x1.4abbce4b90dcap+2 0x1.466bbea9e665dp+1 -0x1.32d0d848e21c9p-1 0x1.50069635dec50p-4
    -0x1.cb29605f9e7c7p-8
""")
"""The coefficients of a polynomial in g**2 that approximates sin(pi g) / g for |g| <= 0.516.

The relative error is at most 2.6e-11.
"""


@legalize("stablehlo.sine", "stablehlo.cosine", "stablehlo.tan", where=ON_CPUS)
@wrong(
    "The error grows with the argument; tiduc emits an exact range reduction and a polynomial (tan: sin / cos).",
    "{op}",
)
def trigonometric(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Computes the function with an exact range reduction and a polynomial in f64. tan is sin / cos.

    Returns None for f64 and for complex numbers.
    """
    x = op.operands[0]
    if not is_float(x) or element(x).width > 32:
        return None
    functions = {"stablehlo.sine": _sine, "stablehlo.cosine": _cosine, "stablehlo.tan": _tangent}
    wide = b.convert(x, ir.F64Type.get())
    return [b.convert(functions[op.name](b, wide, isinstance(element(x), ir.F16Type)), element(x))]


def _cosine(b: Emitter, x: IrValue, near: bool) -> IrValue:
    """Computes cos(x) as sin(pi / 2 - x). `near` is explained in `_sine`.

    Starts from -x, so that cos(x) and sin(x) share no op: IREE would compute shared ops first and store the results.
    """
    return _sine(b, b.negate(x), near, 0.5)


def _tangent(b: Emitter, x: IrValue, near: bool) -> IrValue:
    """Computes sin(x) / cos(x) from one range reduction. cos(pi g) is sin(pi (1/2 - |g|))."""
    most, last, sign = _reduced(b, x, near)
    # |g| may be close to 1/2, so its two parts are subtracted from 1/2 one by one. The first difference is exact.
    left = b.subtract(b.constant(0.5, x), b.abs(most))
    bits, others = (b.bitcast(v, signless(64)) for v in (x, most))
    turned = b.xor(bits, b.and_(others, -(1 << 63)))
    rest = b.negate(b.bitcast(turned, ir.F64Type.get()))
    return b.divide(
        _sine_of(b, _sum(b, x, [last], most), sign), _sine_of(b, _sum(b, rest, [last], left), sign)
    )


def _sine(b: Emitter, x: IrValue, near: bool, more: float | None = None) -> IrValue:
    """Computes sin(x + pi `more`). x has f32 numbers, converted to f64.

    With `near`, all |x| are below the first start in `_REGIONS`, so that no bits of 1 / pi are omitted.
    """
    most, last, sign = _reduced(b, x, near, more)
    return _sine_of(b, _sum(b, x, [last], most), sign)


def _reduced(
    b: Emitter, x: IrValue, near: bool, more: float | None = None
) -> tuple[IrValue, IrValue, IrValue]:
    """Reduces x to g = x / pi + `more` - k, where k is the nearest integer. Returns three values:

    - the leading part of g: g minus the product of x and the last part of 1 / pi
    - the last part of 1 / pi
    - an integer whose sign bit is set if k is odd, because sin(pi g) must then be negated
    """
    whole, (*leading, last) = b.constant(WHOLE, x), _parts(b, x, near)
    start = b.constant(-0.0 if more is None else more, x)  # -0 keeps the sign of x = -0
    if b.fused and more is None:
        shifted = _sum(b, x, leading, whole)
    else:  # adds the small products first, so that only the last addition has a large rounding error
        shifted = b.add(_sum(b, x, leading if b.fused else (last, *reversed(leading)), start), whole)
    most = _sum(b, x, leading, b.subtract(start, b.subtract(shifted, whole)))
    bits = b.bitcast(shifted, signless(64))  # `shifted` is `WHOLE` + k, and its last bits are those of k
    return most, last, b.shift_left(bits, 63)


def _sine_of(b: Emitter, g: IrValue, sign: IrValue) -> IrValue:
    """Computes sin(pi g), and negates it where the sign bit of `sign` is set."""
    square, y = b.multiply(g, g), b.constant(_SINE[-1], g)
    for coefficient in _SINE[-2::-1]:
        y = _sum(b, y, [square], coefficient)
    y = b.bitcast(b.multiply(y, g), signless(64))
    return b.bitcast(b.xor(y, sign), ir.F64Type.get())


def _parts(b: Emitter, x: IrValue, near: bool) -> tuple[IrValue, ...]:
    """The parts of 1 / pi for each element of x. Unless `near`, omits bits of 1 / pi that give only whole turns."""
    widths = (53,) if b.fused else (26, 27)
    parts = tuple(b.constant(part, x) for part in _split(0, widths))
    for start, left_out in () if near else _REGIONS:
        far = b.compare(b.abs(x), start, "GE")
        others = zip(_split(left_out, widths), parts, strict=True)
        parts = tuple(b.select(far, b.constant(part, x), old) for part, old in others)
    return parts


def _split(left_out: int, widths: Sequence[int]) -> tuple[float, ...]:
    """Splits 1 / pi, without the first `left_out` bits of 1 / (2 pi), into a sum of parts.

    `widths` has the number of bits of each part but the last one, which has the remaining bits.
    """
    count, parts = 2 * (TURN % 2 ** (256 - left_out)), list[float]()
    for width in widths:
        below = count.bit_length() - width
        parts.append(ldexp(count >> below, below - 256))
        count %= 2**below
    return *parts, ldexp(float(count), -256)


def _sum(b: Emitter, x: IrValue, factors: Iterable[IrValue], y: float | IrValue) -> IrValue:
    """Adds the products of x and each factor to y, in this order.

    If the target has fused multiply-adds, they round only once for each product and its addition.
    """
    for factor in factors:
        y = b.fma(x, factor, y) if b.fused else b.add(b.multiply(x, factor), y)
    assert isinstance(y, ir.Value), "there is a factor"
    return y
