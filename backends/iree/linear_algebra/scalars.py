"""Indices, numbers and conditions that a program computes, written with Python's operators.

Numbers are real or complex; a complex number is a pair of values, its parts. Real numbers mix with complex ones, and
Python's numbers with both. Products and sums may be contracted to fused multiply-adds.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch_mlir import ir

from tiduc.backends.iree.emitter import signless
from tiduc.backends.iree.fast.kernels import Kernel


class Scope:
    """Where a program emits scalars: the region that it fills now, its real type, and its constants."""

    def __init__(self, k: Kernel, real: Any) -> None:
        self.k = k
        self.real = real
        self._top = k
        self._constants: dict[Any, Any] = {}

    def index(self, i: "Int | int") -> "Int":
        """An index; a Python integer becomes a constant."""
        return Int(self, (self._constant(ir.IndexType.get(), i),)) if isinstance(i, int) else i

    def number(self, x: "Number | float") -> "Number":
        """A number; a Python number becomes a constant of the program's real type."""
        return Number(self, (self._constant(self.real, x),)) if isinstance(x, float) else x

    @property
    def epsilon(self) -> "Number":
        """The distance from 1 to the next number."""
        return self.number(float(np.finfo(np.float64 if self.real.width == 64 else np.float32).eps))

    @property
    def floor(self) -> "Number":
        """A number that is negligible beside entries of about one, but whose square has all its digits."""
        return self.number(2.0 ** (-400 if self.real.width == 64 else -40))

    def either(self, condition: Any, x: "Number | float", y: "Number | float") -> "Number":
        """x if the condition holds, else y."""
        pairs = _pairs(self.number(x), self.number(y))
        return Number(self, tuple(self.k.either(condition, *pair) for pair in pairs))

    def both(self, x: Any, y: Any) -> Any:
        """Whether two conditions hold."""
        return self.k.arith("andi", x, y)

    def no(self, x: Any) -> Any:
        """Whether a condition does not hold."""
        return self.k.arith("xori", x, self._constant(signless(1), 1))

    def power_of_two(self, x: "Number") -> "Number":
        """The power of two up to a positive number, by which division is exact; 1 for 0, infinity and NaN."""
        wide = self.real.width == 64
        bits, mask = signless(64 if wide else 32), 0x7FF0000000000000 if wide else 0x7F800000
        given = self.k.emit("arith.bitcast", x.parts, bits)
        exponent = self.k.arith("andi", given, self._constant(bits, mask))
        y = Number(self, (self.k.emit("arith.bitcast", (exponent,), self.real),))
        return self.either(self.both(y > 0.0, self.number(float("inf")) > y), y, 1.0)

    def _constant(self, type_: Any, value: float) -> Any:
        """A constant at the start of the kernel."""
        key = str(type_), value
        if key not in self._constants:
            is_float = isinstance(type_, ir.FloatType)
            attribute = ir.FloatAttr.get(type_, value) if is_float else ir.IntegerAttr.get(type_, value)
            start = ir.InsertionPoint.at_block_begin(self._top.place.block)
            top = Kernel(start, self.k.location)
            self._constants[key] = top.emit("arith.constant", (), type_, {"value": attribute})
        return self._constants[key]


@dataclass(frozen=True, eq=False)
class Int:
    """An index. The other operand of an operator may be a Python integer."""

    p: Scope
    parts: tuple[Any, ...]

    @property
    def v(self) -> Any:
        """The value, of type index."""
        return self.parts[0]

    def __add__(self, other: "Int | int") -> "Int":
        return self if isinstance(other, int) and other == 0 else self._with("addi", other)

    __radd__ = __add__

    def __sub__(self, other: "Int | int") -> "Int":
        return self._with("subi", other)

    def __rsub__(self, other: int) -> "Int":
        return self.p.index(other) - self

    def __mul__(self, other: "Int | int") -> "Int":
        return self._with("muli", other)

    def __mod__(self, other: int) -> "Int":
        return self._with("remui", other)

    def min(self, other: "Int | int") -> "Int":
        """The smaller one."""
        return self._with("minui", other)

    def max(self, other: "Int | int") -> "Int":
        """The larger one."""
        return self._with("maxui", other)

    def equals(self, other: "Int | int") -> Any:
        """Whether two indices are equal."""
        return self.p.k.equal(self.v, self.p.index(other).v)

    def like(self, other: Any) -> "Int":
        """Another index as a value."""
        return self.p.index(other)

    def replaced_if(self, condition: Any, other: Any) -> "Int":
        """The other index if the condition holds, else this one."""
        return Int(self.p, (self.p.k.either(condition, self.p.index(other).v, self.v),))

    def _with(self, name: str, other: "Int | int") -> "Int":
        return Int(self.p, (self.p.k.arith(name, self.v, self.p.index(other).v),))


@dataclass(frozen=True, eq=False)
class Number:
    """A real number, or the two parts of a complex one. The other operand of an operator may be a Python float."""

    p: Scope
    parts: tuple[Any, ...]

    @property
    def re(self) -> "Number":
        """The real part."""
        return Number(self.p, self.parts[:1])

    @property
    def im(self) -> "Number":
        """The imaginary part; 0 for a real number."""
        return Number(self.p, self.parts[1:] or self.p.number(0.0).parts)

    @property
    def conj(self) -> "Number":
        """The conjugate; the number itself if it is real."""
        return self if len(self.parts) == 1 else self.re.with_im(-self.im)

    def with_im(self, im: "Number") -> "Number":
        """The complex number with this real part and an imaginary part."""
        return Number(self.p, self.parts + im.parts)

    def __neg__(self) -> "Number":
        return self._each("arith.negf")

    def __add__(self, other: "Number | float") -> "Number":
        return self._with("arith.addf", other)

    __radd__ = __add__

    def __sub__(self, other: "Number | float") -> "Number":
        return self._with("arith.subf", other)

    def __mul__(self, other: "Number | float") -> "Number":
        other = self.p.number(other)
        if len(other.parts) == 1:
            return self._each("arith.mulf", other.parts[0])
        if len(self.parts) == 1:
            return other * self
        re = self.re * other.re - self.im * other.im
        return re.with_im(self.re * other.im + self.im * other.re)

    def __truediv__(self, other: "Number | float") -> "Number":
        """A quotient; of complex numbers without overflow on the way.

        Source: R. L. Smith, "Algorithm 116: Complex division" (1962).
        """
        other = self.p.number(other)
        if len(other.parts) == 1:
            return self._each("arith.divf", other.parts[0])
        flat = abs(other.re) >= abs(other.im)
        large, small = self.p.either(flat, other.re, other.im), self.p.either(flat, other.im, other.re)
        ratio = small / large
        divisor = large + small * ratio
        first, second = (self.p.either(flat, *pair) for pair in ((self.re, self.im), (self.im, self.re)))
        re, im = (first + second * ratio) / divisor, (second - first * ratio) / divisor
        return re.with_im(self.p.either(flat, im, -im))

    def __abs__(self) -> "Number":
        """The absolute values of the parts."""
        return self._each("math.absf")

    def __gt__(self, other: "Number | float") -> Any:
        """Whether a real number is larger; false for a NaN."""
        return self.p.k.above(self.parts[0], self.p.number(other).parts[0])

    def __ge__(self, other: "Number | float") -> Any:
        """Whether a real number is not smaller; false for a NaN."""
        return self.p.k.not_below(self.parts[0], self.p.number(other).parts[0])

    @property
    def is_zero(self) -> Any:
        """Whether the number is zero."""
        first, *second = (self.p.k.is_zero(part) for part in self.parts)
        return self.p.both(first, *second) if second else first

    @property
    def sqrt(self) -> "Number":
        """The square root of a real number."""
        return self._each("math.sqrt")

    @property
    def square(self) -> "Number":
        """|x|^2."""
        return self._total([x * x for x in self._separate()])

    @property
    def size(self) -> "Number":
        """|x| of a real number, |re| + |im| of a complex one, by which LAPACK compares pivots."""
        return self._total(abs(self)._separate())

    def max(self, other: "Number") -> "Number":
        """The maximum of a real number and the absolute values of the parts of another; NaN if one of them is."""
        most = self
        for part in abs(other)._separate():
            most = most._with("arith.maximumf", part)
        return most

    def min(self, other: "Number") -> "Number":
        """The minimum of two real numbers."""
        return self._with("arith.minimumf", other)

    def plus_term(self, term: "Number") -> "Number":
        """x plus a term of a sum whose terms may be added in any order."""
        return self._with("arith.addf", term, "contract,reassoc")

    def padded(self, count: int) -> tuple[Any, ...]:
        """The parts, of which there are to be `count`; a real number has an imaginary part of 0."""
        assert count >= len(self.parts), "a complex number has no real value"
        return (self.parts + self.im.parts)[:count]

    def like(self, other: "Number | float") -> "Number":
        """Another number, which has as many parts as this one."""
        return Number(self.p, self.p.number(other).padded(len(self.parts)))

    def replaced_if(self, condition: Any, other: "Number | float") -> "Number":
        """The other number if the condition holds, else this one."""
        return self.like(self.p.either(condition, other, self))

    def _separate(self) -> list["Number"]:
        return [Number(self.p, (part,)) for part in self.parts]

    def _total(self, parts: list["Number"]) -> "Number":
        return parts[0] if len(parts) == 1 else parts[0] + parts[1]

    def _each(self, name: str, *others: Any) -> "Number":
        """The op for each part, which takes the same other operands for both."""
        return Number(self.p, tuple(_emitted(self.p.k, name, (part, *others)) for part in self.parts))

    def _with(self, name: str, other: "Number | float", flags: str = "contract") -> "Number":
        """The op for the pairs of parts of two numbers."""
        pairs = _pairs(self, self.p.number(other))
        return Number(self.p, tuple(_emitted(self.p.k, name, pair, flags) for pair in pairs))


def _pairs(x: Number, y: Number) -> list[tuple[Any, Any]]:
    """The pairs of parts of two numbers; both have imaginary parts if one has."""
    count = max(len(x.parts), len(y.parts))
    return list(zip(x.padded(count), y.padded(count), strict=True))


def _emitted(k: Kernel, name: str, operands: tuple[Any, ...], flags: str = "contract") -> Any:
    attributes = {"fastmath": ir.Attribute.parse(f"#arith.fastmath<{flags}>")}
    return k.emit(name, operands, operands[0].type, attributes)
