"""Scalars of programs: indices, numbers and conditions, computed with Python's operators.

A Python int is an index, and a Python float is a number. An operator may combine a real and a complex number. A complex
number is a pair of values, the real and the imaginary part; these are called its parts. The compiler may contract
products and sums to fused multiply-adds.
"""

import functools
import operator
from dataclasses import dataclass

import numpy as np
from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import signless
from tiduc.backends.iree.emit.kernels import Kernel
from tiduc.dialect.ops.ir_types import IrValue

_OF_INDICES = {
    "arith.addf": "arith.addi",
    "arith.maximumf": "arith.maxui",
    "arith.minimumf": "arith.minui",
    "arith.mulf": "arith.muli",
    "arith.remf": "arith.remui",
    "arith.subf": "arith.subi",
}
"""Maps each op on numbers to the op on indices that computes the same function."""


class ScalarScope:
    """Emits ops on scalars. `k` emits them to the current region, and `real` is the type of real numbers."""

    def __init__(self, k: Kernel, real: ir.FloatType) -> None:
        self.k = k
        self.real = real

    def scalar(self, x: "Scalar | float") -> "Scalar":
        """Converts x to a scalar. A Python int becomes a constant index, a Python float a constant of the real type."""
        if isinstance(x, Scalar):
            return x
        return Scalar(self, (self.k.number(x, ir.IndexType.get() if isinstance(x, int) else self.real),))

    @property
    def epsilon(self) -> "Number":
        """The distance from 1 to the next larger number of the real type."""
        return self.scalar(float(np.finfo(np.float64 if self.real.width == 64 else np.float32).eps))

    @property
    def floor(self) -> "Number":
        """A power of two that is negligible compared to 1, but whose square is not subnormal."""
        return self.scalar(2.0 ** (-400 if self.real.width == 64 else -40))

    def select(self, condition: IrValue, x: "Scalar | float", y: "Scalar | float") -> "Scalar":
        """x if the condition holds, else y."""
        pairs = _pairs(self.scalar(x), self.scalar(y))
        return Scalar(self, tuple(self.k.select_scalar(condition, *pair) for pair in pairs))

    def logical_and(self, x: IrValue, y: IrValue) -> IrValue:
        """Whether both conditions hold."""
        return self.k.arith("andi", x, y)

    def logical_not(self, x: IrValue) -> IrValue:
        """Whether a condition does not hold."""
        return self.k.arith("xori", x, self.k.number(1, signless(1)))

    def power_of_two(self, x: "Number") -> "Number":
        """The largest power of two that is at most x > 0. 1 if x is 0, subnormal, infinite or NaN.

        Division by the power is exact, unless the quotient is subnormal.
        """
        wide = self.real.width == 64
        bits, mask = signless(64 if wide else 32), 0x7FF0000000000000 if wide else 0x7F800000
        given = self.k.emit("arith.bitcast", x.parts, bits)
        exponent = self.k.arith("andi", given, self.k.number(mask, bits))
        y = Scalar(self, (self.k.emit("arith.bitcast", (exponent,), self.real),))
        return self.select(self.logical_and(y > 0.0, self.scalar(float("inf")) > y), y, 1.0)


@dataclass(frozen=True, eq=False)
class Scalar:
    """An index, a real number, or a complex number. The other operand of an operator may be a Python number.

    `parts` has one value, or the real and the imaginary part of a complex number.
    """

    p: ScalarScope
    parts: tuple[IrValue, ...]

    @property
    def v(self) -> IrValue:
        """The value of an index or a real number."""
        return self.parts[0]

    @property
    def re(self) -> "Number":
        """The real part."""
        return Scalar(self.p, self.parts[:1])

    @property
    def im(self) -> "Number":
        """The imaginary part; 0 for a real number."""
        return Scalar(self.p, self.parts[1:] or self.p.scalar(0.0).parts)

    @property
    def conj(self) -> "Number":
        """The conjugate; the number itself if it is real."""
        return self if len(self.parts) == 1 else self.re.with_im(-self.im)

    def with_im(self, im: "Number") -> "Number":
        """The complex number whose real part is this number, and whose imaginary part is `im`."""
        return Scalar(self.p, self.parts + im.parts)

    def __neg__(self) -> "Number":
        return self._each("arith.negf")

    def __add__(self, other: "Scalar | float") -> "Scalar":
        return self if isinstance(other, int) and other == 0 else self._with("arith.addf", other)

    __radd__ = __add__

    def __sub__(self, other: "Scalar | float") -> "Scalar":
        return self._with("arith.subf", other)

    def __rsub__(self, other: int) -> "Int":
        return self.p.scalar(other) - self

    def __mul__(self, other: "Scalar | float") -> "Scalar":
        if isinstance(other, int) and other == 1:
            return self
        other = self.p.scalar(other)
        if len(other.parts) == 1:
            return self._each("arith.mulf", other.v)
        if len(self.parts) == 1:
            return other * self
        re = self.re * other.re - self.im * other.im
        return re.with_im(self.re * other.im + self.im * other.re)

    def __mod__(self, other: int) -> "Int":
        return self._with("arith.remf", other)

    def __truediv__(self, other: "Number | float") -> "Number":
        """The quotient. A complex division does not square the divisor, because the square could overflow.

        Source: R. L. Smith, "Algorithm 116: Complex division" (1962).
        """
        other = self.p.scalar(other)
        if len(other.parts) == 1:
            return self._each("arith.divf", other.v)
        flat = abs(other.re) >= abs(other.im)
        large, small = self.p.select(flat, other.re, other.im), self.p.select(flat, other.im, other.re)
        ratio = small / large
        divisor = large + small * ratio
        first, second = (self.p.select(flat, *pair) for pair in ((self.re, self.im), (self.im, self.re)))
        re, im = (first + second * ratio) / divisor, (second - first * ratio) / divisor
        return re.with_im(self.p.select(flat, im, -im))

    def __abs__(self) -> "Number":
        """|x| for a real number. For a complex number, |re| + i |im|."""
        return self._each("math.absf")

    def max(self, other: "Scalar | float") -> "Scalar":
        """The maximum of two indices or real numbers. NaN if either is NaN."""
        return self._with("arith.maximumf", other)

    def min(self, other: "Scalar | float") -> "Scalar":
        """The minimum of two indices or real numbers. NaN if either is NaN."""
        return self._with("arith.minimumf", other)

    def __gt__(self, other: "Number | float") -> IrValue:
        """Whether a real number is larger; false for a NaN."""
        return self.p.k.compared("ogt", self.v, self.p.scalar(other).v)

    def __ge__(self, other: "Number | float") -> IrValue:
        """Whether a real number is larger or equal; false for a NaN."""
        return self.p.k.compared("oge", self.v, self.p.scalar(other).v)

    def equals(self, other: "Scalar | float") -> IrValue:
        """Whether two indices or two numbers are equal."""
        equal = "eq" if isinstance(self.v.type, ir.IndexType) else "oeq"
        pairs = _pairs(self, self.p.scalar(other))
        return functools.reduce(self.p.logical_and, (self.p.k.compared(equal, *pair) for pair in pairs))

    @property
    def is_zero(self) -> IrValue:
        """Whether a number is zero."""
        return self.equals(0.0)

    @property
    def sqrt(self) -> "Number":
        """The square root with nonnegative real part. For large complex numbers, intermediate values may overflow."""
        if len(self.parts) == 1:
            return self._each("math.sqrt")
        p = self.p
        long = ((self.length + abs(self.re)) * 0.5).sqrt
        short = self.im * 0.5 / p.select(long.is_zero, 1.0, long)
        upright = abs(short).with_im(p.select(self.im >= 0.0, long, -long))
        return p.select(self.re >= 0.0, long.with_im(short), upright)

    @property
    def square(self) -> "Number":
        """|x|^2."""
        return functools.reduce(operator.add, (x * x for x in self._separate()))

    @property
    def length(self) -> "Number":
        """|x|, computed from x divided by its largest part, so that no square overflows."""
        top = self.largest_part
        return top * (self / self.p.select(top.is_zero, 1.0, top)).square.sqrt

    @property
    def size(self) -> "Number":
        """|x| for a real number, |re| + |im| for a complex number. LAPACK compares pivots by this size."""
        return functools.reduce(operator.add, abs(self)._separate())

    @property
    def largest_part(self) -> "Number":
        """|x| for a real number, max(|re|, |im|) for a complex number. NaN if a part is NaN."""
        return functools.reduce(Scalar.max, abs(self)._separate())

    def plus_term(self, term: "Number") -> "Number":
        """This number plus a term of a sum. The compiler may reorder the additions of such terms."""
        return self._with("arith.addf", term, "contract,reassoc")

    def padded(self, count: int) -> tuple[IrValue, ...]:
        """The parts as a tuple of `count` values. If `count` is 2 and the number is real, the imaginary part is 0."""
        assert count >= len(self.parts), "a complex number where a real one is needed"
        return self.parts if count == len(self.parts) else self.parts + self.im.parts

    def _separate(self) -> list["Number"]:
        return [Scalar(self.p, (part,)) for part in self.parts]

    def _each(self, name: str, *others: IrValue) -> "Scalar":
        """Applies the op `name` to each part. `others` are the op's further operands."""
        return Scalar(self.p, tuple(_emitted(self.p.k, name, (part, *others)) for part in self.parts))

    def _with(self, name: str, other: "Scalar | float", flags: str = "contract") -> "Scalar":
        """Applies the op `name` to the real parts of two scalars and, if one is complex, to their imaginary parts."""
        pairs = _pairs(self, self.p.scalar(other))
        return Scalar(self.p, tuple(_emitted(self.p.k, name, pair, flags) for pair in pairs))


Int = Scalar
Number = Scalar
"""Names for `Scalar` in signatures, where `Int` stands for an index and `Number` for a number."""


def _pairs(x: Scalar, y: Scalar) -> list[tuple[IrValue, IrValue]]:
    """Pairs the real parts of two scalars and, if one of the scalars is complex, the imaginary parts."""
    count = max(len(x.parts), len(y.parts))
    return list(zip(x.padded(count), y.padded(count), strict=True))


def _emitted(k: Kernel, name: str, operands: tuple[IrValue, ...], flags: str = "contract") -> IrValue:
    type_ = operands[0].type
    if isinstance(type_, ir.IndexType):
        return k.emit(_OF_INDICES[name], operands, type_)
    return k.emit(name, operands, type_, {"fastmath": ir.Attribute.parse(f"#arith.fastmath<{flags}>")})
