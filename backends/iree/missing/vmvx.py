"""Replaces ops that IREE's target vmvx lacks or computes wrongly.

The ops are counts of bits, shifts of narrow integers, and signs of floats.
"""

from collections.abc import Sequence

from tiduc.backends.iree.emit.emitter import Emitter, legalize, signless
from tiduc.backends.iree.fault import crash, missing, wrong
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import bits, element, is_float


@legalize("stablehlo.count_leading_zeros")
@wrong(
    "On vmvx, IREE extends narrow integers to 32 bits and counts the added zeros; tiduc subtracts their number.",
    "vmvx/leading_zeros",
)
@crash(
    "On SPIR-V, integers narrower than 32 bits do not compile; tiduc counts in 32 bits.",
    "vulkan/leading_zeros_of_bytes",
)
def count_leading_zeros(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Extends a narrow integer with zeros, counts leading zeros, and subtracts the number of added zeros.

    Returns None for integers of at least 32 bits, and if `b.cpu` is set, which it is not for vmvx.
    """
    (x,) = op.operands
    if b.cpu or bits(x) >= 32:
        return None
    zeros = b.emit(op.name, (wide := _widened(b, x),), wide.type)
    return [b.convert(b.subtract(zeros, b.constant(32 - bits(x), wide)), element(x))]


@legalize("stablehlo.shift_right_logical")
@wrong(
    "On vmvx, IREE shifts copies of the sign into narrow integers; tiduc shifts in 32 bits.",
    "vmvx/shift_right_logical",
)
def shift_right_logical(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Extends a narrow integer with zeros to 32 bits before the shift.

    Returns None for integers of at least 32 bits, for SPIR-V, and if `b.cpu` is set, which it is not for vmvx.
    """
    x, count = op.operands
    if b.cpu or b.settings.spirv or bits(x) >= 32:
        return None
    wide = _widened(b, x)
    return [b.convert(b.emit(op.name, (wide, _widened(b, count)), wide.type), element(x))]


@legalize("stablehlo.popcnt")
@missing(
    "The op does not compile on vmvx; tiduc counts the ones of 2, 4 and 8 bits in parallel, then adds all bytes.",
    "vmvx/popcnt",
)
def count_ones(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Counts the ones in each 2 bits, each 4 bits and each byte, in parallel. Then adds the counts of the bytes.

    Returns None on targets that compile the op.
    """
    if b.cpu or b.settings.spirv:
        return None
    (x,) = op.operands
    v = _widened(b, x)
    width = bits(v)

    def shifted(v: IrValue, count: int) -> IrValue:
        return b.emit("stablehlo.shift_right_logical", (v, count), v.type)

    def repeated(part: int, size: int) -> int:
        """The integer of `width` bits that repeats the bits of `part` every `size` bits."""
        return sum(part << i for i in range(0, width, size))

    v = b.subtract(v, b.and_(shifted(v, 1), repeated(0b01, 2)))
    v = b.add(b.and_(v, repeated(0b0011, 4)), b.and_(shifted(v, 2), repeated(0b0011, 4)))
    v = b.and_(b.add(v, shifted(v, 4)), repeated(0b00001111, 8))
    ones = shifted(b.multiply(v, b.constant(repeated(1, 8), v)), width - 8)
    return [b.convert(ones, element(x))]


def _widened(b: Emitter, x: IrValue) -> IrValue:
    """x as signless integers of at least 32 bits. Narrow integers are extended with zeros."""
    width = bits(x)
    if width >= 32:
        return b.bitcast(x, signless(width))
    return b.and_(b.convert(x, signless(32)), 2**width - 1)


@legalize("stablehlo.sign")
@missing(
    "The op does not compile for floats on vmvx; tiduc selects 1, -1, or x itself if x is zero or NaN.",
    "vmvx/sign",
)
def sign(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Selects 1 for x > 0, -1 for x < 0, and x itself for zeros and NaN.

    Returns None for integers, and on targets that compile the op.
    """
    (x,) = op.operands
    if b.cpu or b.settings.spirv or not is_float(x):
        return None
    one, minus_one = b.constant(1, x), b.constant(-1, x)
    return [b.select(b.compare(x, 0, "GT"), one, b.select(b.compare(x, 0, "LT"), minus_one, x))]
