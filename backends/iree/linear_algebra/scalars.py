"""Indices and numbers that a kernel computes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch_mlir import ir

from tiduc.backends.iree.emitter import signless
from tiduc.backends.iree.fast.kernels import Kernel


class Scope:
    """Where a kernel emits scalars: the region that it fills now, its real type, and its constants."""

    def __init__(self, k: Kernel, real: Any, fused: bool) -> None:
        self.k = k
        self.real = real
        self.fused = fused  # the target has a fused multiply-add instruction
        self._top = k
        self._constants: dict[Any, Any] = {}

    def index(self, i: Any) -> Any:
        """A Python integer or an `Int` as a value of type index."""
        return self._constant(ir.IndexType.get(), i) if isinstance(i, int) else i.v

    def constant(self, x: float, *more: float) -> "Number":
        """A number of the kernel's real type, or, with an imaginary part, of its complex type."""
        return Number(self, tuple(self._constant(self.real, part) for part in (x, *more)))

    @property
    def epsilon(self) -> "Number":
        """The distance from 1 to the next number."""
        return self.constant(float(np.finfo(np.float64 if self.real.width == 64 else np.float32).eps))

    @property
    def floor(self) -> "Number":
        """A number that is negligible beside entries of about one, but whose square has all its digits."""
        return self.constant(2.0 ** (-400 if self.real.width == 64 else -40))

    def either(self, condition: Any, x: "Number | float", y: "Number | float") -> "Number":
        """x if the condition holds, else y."""
        x, y = (self.constant(z) if isinstance(z, float) else z for z in (x, y))
        parts = zip(x.parts, y.parts, strict=True)
        return Number(self, tuple(self.k.either(condition, *pair) for pair in parts))

    def both(self, x: Any, y: Any) -> Any:
        """Whether two conditions hold."""
        return self.k.arith("andi", x, y)

    def no(self, x: Any) -> Any:
        """Whether a condition does not hold."""
        return self.k.arith("xori", x, self._constant(signless(1), 1))

    def _constant(self, type_: Any, value: float) -> Any:
        """A constant at the start of the kernel."""
        key = str(type_), value
        if key not in self._constants:
            is_float = isinstance(type_, ir.FloatType)
            attribute = ir.FloatAttr.get(type_, value) if is_float else ir.IntegerAttr.get(type_, value)
            ip = ir.InsertionPoint.at_block_begin(self._top.place.block)
            made = {"loc": self.k.location, "ip": ip}
            op = ir.Operation.create("arith.constant", [type_], [], {"value": attribute}, **made)
            self._constants[key] = op.results[0]
        return self._constants[key]


@dataclass(frozen=True, eq=False)
class Int:
    """An index that the kernel computes."""

    p: Scope
    v: Any

    def __add__(self, other: Any) -> "Int":
        return self if isinstance(other, int) and other == 0 else self._of("addi", other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> "Int":
        return self._of("subi", other)

    def __rsub__(self, other: int) -> "Int":
        return Int(self.p, self.p.index(other)) - self

    def __mul__(self, other: Any) -> "Int":
        return self._of("muli", other)

    def __mod__(self, other: int) -> "Int":
        return self._of("remui", other)

    def min(self, other: Any) -> "Int":
        """The smaller one."""
        return self._of("minui", other)

    def max(self, other: Any) -> "Int":
        """The larger one."""
        return self._of("maxui", other)

    def equals(self, other: Any) -> Any:
        """Whether two indices are equal."""
        return self.p.k.equal(self.v, self.p.index(other))

    def differs(self, other: Any) -> Any:
        """Whether two indices differ."""
        return self.p.k.differs_from_zero((self - other).v)

    def _of(self, name: str, other: Any) -> "Int":
        return Int(self.p, self.p.k.arith(name, self.v, self.p.index(other)))


@dataclass(frozen=True, eq=False)
class Number:
    """A real number, or the two parts of a complex one. A Python number may be the other operand."""

    p: Scope
    parts: tuple[Any, ...]

    @property
    def re(self) -> "Number":
        """The real part."""
        return Number(self.p, self.parts[:1])

    @property
    def im(self) -> "Number":
        """The imaginary part of a complex number."""
        return Number(self.p, self.parts[1:])

    @property
    def conj(self) -> "Number":
        """The conjugate; the number itself if it is real."""
        return Number(self.p, (self.parts[0], *(-self.im).parts))

    def __neg__(self) -> "Number":
        return self._mapped("arith.negf")

    def __add__(self, other: Any) -> "Number":
        return self._with("addf", other)

    def __radd__(self, other: float) -> "Number":
        return self.p.constant(other) + self

    def __sub__(self, other: Any) -> "Number":
        return self._with("subf", other)

    def __mul__(self, other: Any) -> "Number":
        other = self._number(other)
        if len(self.parts) == 1 or len(other.parts) == 1:
            few, many = sorted((self, other), key=lambda x: len(x.parts))
            return Number(self.p, tuple(self.p.k.arith("mulf", few.parts[0], part) for part in many.parts))
        x, y, u, v = self.re, self.im, other.re, other.im
        return Number(self.p, (x * u - y * v).parts + (x * v + y * u).parts)

    def __truediv__(self, other: Any) -> "Number":
        """A quotient; of complex numbers without overflow on the way.

        Source: R. L. Smith, "Algorithm 116: Complex division" (1962).
        """
        other = self._number(other)
        if len(other.parts) == 1:
            (by,) = other.parts
            return Number(self.p, tuple(self.p.k.arith("divf", part, by) for part in self.parts))
        flat = abs(other.re) >= abs(other.im)
        large, small = self.p.either(flat, other.re, other.im), self.p.either(flat, other.im, other.re)
        ratio = small / large
        divisor = large + small * ratio
        first, second = (self.p.either(flat, *pair) for pair in ((self.re, self.im), (self.im, self.re)))
        re, im = (first + second * ratio) / divisor, (second - first * ratio) / divisor
        return Number(self.p, re.parts + self.p.either(flat, im, -im).parts)

    def __abs__(self) -> "Number":
        """The absolute values of the parts."""
        return self._mapped("math.absf")

    def __gt__(self, other: Any) -> Any:
        """Whether a real number is larger; false for a NaN."""
        return self.p.k.above(self.parts[0], self._number(other).parts[0])

    def __ge__(self, other: Any) -> Any:
        """Whether a real number is not smaller; false for a NaN."""
        return self.p.k.not_below(self.parts[0], self._number(other).parts[0])

    @property
    def is_zero(self) -> Any:
        """Whether the number is zero."""
        found = [self.p.k.is_zero(part) for part in self.parts]
        return found[0] if len(found) == 1 else self.p.both(*found)

    @property
    def sqrt(self) -> "Number":
        """The square root of a real number."""
        return self._mapped("math.sqrt")

    @property
    def square(self) -> "Number":
        """|x|^2."""
        parts = [x * x for x in self._apart()]
        return parts[0] if len(parts) == 1 else parts[0] + parts[1]

    @property
    def size(self) -> "Number":
        """|x| of a real number, |re| + |im| of a complex one, by which LAPACK compares pivots."""
        parts = [abs(x) for x in self._apart()]
        return parts[0] if len(parts) == 1 else parts[0] + parts[1]

    def max(self, other: "Number") -> "Number":
        """The maximum of a real number and the absolute values of the parts of another; NaN if one of them is."""
        most = self
        for part in other._apart():
            most = most._with("maximumf", abs(part))
        return most

    def min(self, other: "Number") -> "Number":
        """The minimum of two real numbers."""
        return self._with("minimumf", other)

    def less(self, factor: "Number", y: "Number") -> "Number":
        """x - factor y, by fused multiply-adds if the target has them; a real factor may scale a complex y."""
        if len(factor.parts) == 1:
            parts = zip(self.parts, y.parts, strict=True)
            return Number(self.p, tuple(self._less(x, factor.parts[0], z) for x, z in parts))
        (re, im), (f_re, f_im), (y_re, y_im) = self.parts, factor.parts, y.parts
        re = self._less(self._less(re, f_re, y_re), (-factor.im).parts[0], y_im)
        return Number(self.p, (re, self._less(self._less(im, f_re, y_im), f_im, y_re)))

    def plus(self, other: "Number") -> "Number":
        """x + y as a part of a sum whose terms may be added in any order."""
        loose = {"fastmath": ir.Attribute.parse("#arith.fastmath<reassoc>")}
        pairs = zip(self.parts, other.parts, strict=True)
        return Number(self.p, tuple(self.p.k.emit("arith.addf", pair, self.p.real, loose) for pair in pairs))

    def _less(self, x: Any, f: Any, y: Any) -> Any:
        k = self.p.k
        if self.p.fused:
            return k.emit("math.fma", (k.emit("arith.negf", (f,), f.type), y, x), x.type)
        return k.arith("subf", x, k.arith("mulf", f, y))

    def _apart(self) -> list["Number"]:
        return [Number(self.p, (part,)) for part in self.parts]

    def _mapped(self, name: str) -> "Number":
        return Number(self.p, tuple(self.p.k.emit(name, (part,), part.type) for part in self.parts))

    def _number(self, other: Any) -> "Number":
        return other if isinstance(other, Number) else self.p.constant(other)

    def _with(self, name: str, other: Any) -> "Number":
        pairs = zip(self.parts, self._number(other).parts, strict=True)
        return Number(self.p, tuple(self.p.k.arith(name, *pair) for pair in pairs))
