"""Matrices in a kernel. A line is a flat array with a batch of them, all real parts before imaginary ones.

A kernel (backends/iree/fast/kernels.py) is one dispatch, where StableHLO loops take several dispatches an
iteration. Its loops visit only the elements that a step changes. One thread runs a kernel, so kernels are for
CPUs.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter, signless
from tiduc.backends.iree.fast.kernels import Kernel
from tiduc.backends.iree.linear_algebra.matrices import real_type
from tiduc.dialect.types import is_complex, shape

Number = tuple[Any, ...]
"""A number in a kernel: itself, or its real and its imaginary part."""


def lines(b: Emitter, x: Any) -> Number:
    """A batch of matrices as a kernel reads it: a line of its numbers, or a line for each of the two parts.

    The barrier keeps the producer of x out of the kernel. Joining both parts to one line would be a copy
    more.
    """
    parts = [b.real(x), b.imag(x)] if is_complex(x) else [x]
    return b.barrier(*(b.reshape(part, [math.prod(shape(x))]) for part in parts))


def type_of_line(x: Any) -> Any:
    """The type of the line that a kernel writes for a batch of matrices."""
    return ir.RankedTensorType.get([math.prod(shape(x)) * (2 if is_complex(x) else 1)], real_type(x))


def of_line(b: Emitter, y: Any, type_: Any) -> Any:
    """The batch of matrices, of this type, in a line."""
    if not isinstance(type_.element_type, ir.ComplexType):
        return b.reshape(y, type_.shape)
    size = shape(y)[0] // 2
    parts = (b.slice(y, [i * size], [(i + 1) * size], [1]) for i in (0, 1))
    return b.complex(*(b.reshape(part, type_.shape) for part in parts))


@dataclass(frozen=True)
class Layout:
    """Where the entries of matrices are in a line.

    `turned` matrices are read as their transposes. `rows_back` and `columns_back` reverse the order of the
    rows and columns that are read.
    """

    sizes: tuple[int, ...]  # batch, rows and columns, as stored
    complex: bool
    turned: bool = False
    rows_back: bool = False
    columns_back: bool = False
    start: Any = 0  # the offset of the first matrix in the line

    @property
    def rows(self) -> int:
        """The number of rows that are read."""
        return self.sizes[2 if self.turned else 1]

    @property
    def columns(self) -> int:
        """The number of columns that are read."""
        return self.sizes[1 if self.turned else 2]

    def moved(self, k: Kernel, by: Any) -> "Layout":
        """This layout shifted by an offset."""
        return replace(self, start=k.arith("addi", by, k.index(self.start)))

    def given(self, k: Kernel, xs: Number, place: Sequence[Any]) -> Number:
        """The entry at a place (batch, row and column) of lines that `lines` gave."""
        return tuple(k.element(x, self._at(k, place)[0]) for x in xs)

    def read(self, k: Kernel, x: Any, place: Sequence[Any]) -> Number:
        """The entry at a place of a line that the kernel writes."""
        return tuple(k.element(x, at) for at in self._at(k, place))

    def write(self, k: Kernel, v: Number, x: Any, place: Sequence[Any]) -> Any:
        """The line with a number written to a place."""
        for part, at in zip(v, self._at(k, place), strict=True):
            x = k.put(part, x, at)
        return x

    def _at(self, k: Kernel, place: Sequence[Any]) -> list[Any]:
        batch, i, j = place
        if self.rows_back:
            i = k.arith("subi", k.index(self.rows - 1), i)
        if self.columns_back:
            j = k.arith("subi", k.index(self.columns - 1), j)
        count, m, n = self.sizes
        if self.turned:
            i, j = j, i
        row = k.arith("addi", k.arith("muli", batch, k.index(m)), i)
        at = k.arith("addi", k.arith("muli", row, k.index(n)), j)
        if self.start != 0:
            at = k.arith("addi", at, k.index(self.start))
        return [at, k.arith("addi", at, k.index(count * m * n))] if self.complex else [at]


class Room:
    """Allocates places for matrices in a line, one after the other."""

    def __init__(self) -> None:
        self.size = 0

    def of(self, rows: int, columns: int, of_complex: bool = False) -> Layout:
        """The layout of the next matrix."""
        made = Layout((1, rows, columns), of_complex, start=self.size)
        self.size += rows * columns * (2 if of_complex else 1)
        return made


def layout(x: Any, **how: bool) -> Layout:
    """The layout of a batch of matrices in its line."""
    return Layout(tuple(shape(x)), is_complex(x), **how)


def each(
    k: Kernel, start: Any, end: Any, carries: Sequence[Any], body: Callable[..., Sequence[Any]]
) -> tuple[Any, ...]:
    """The loop-carried values after `body(kernel, i, *carries)` for i from `start` to below `end`."""
    return k.loop(k.index(start), k.index(end), k.index(1), carries, body)


def copied(k: Kernel, xs: Number, length: int = 0) -> Any:
    """A copy, which the kernel may write, of lines that `lines` gave; `length` leaves room for more."""
    size = xs[0].type.shape[0]
    line = ir.RankedTensorType.get([length or size * len(xs)], xs[0].type.element_type)

    def copy(k: Kernel, i: Any, y: Any) -> Sequence[Any]:
        for n, x in enumerate(xs):
            y = k.put(k.element(x, i), y, k.arith("addi", i, k.index(n * size)))
        return [y]

    return each(k, 0, size, [k.empty(line)], copy)[0]


# ---- arithmetic ---------------------------------------------------------------------------------------------


def less_product(k: Kernel, x: Number, f: Number, y: Number, fused: bool) -> Number:
    """x - f y, by fused multiply-adds if `fused`."""
    if len(x) == 1:
        return (_less(k, x[0], f[0], y[0], fused),)
    (re, im), (f_re, f_im), (y_re, y_im) = x, f, y
    minus = k.emit("arith.negf", (f_im,), f_im.type)
    re = _less(k, _less(k, re, f_re, y_re, fused), minus, y_im, fused)
    return re, _less(k, _less(k, im, f_re, y_im, fused), f_im, y_re, fused)


def _less(k: Kernel, x: Any, f: Any, y: Any, fused: bool) -> Any:
    if fused:
        return k.emit("math.fma", (k.emit("arith.negf", (f,), f.type), y, x), x.type)
    return k.arith("subf", x, k.arith("mulf", f, y))


def added(k: Kernel, x: Any, y: Any) -> Any:
    """x + y, as a part of a sum whose terms may be added in any order."""
    return k.emit("arith.addf", (x, y), x.type, {"fastmath": ir.Attribute.parse("#arith.fastmath<reassoc>")})


def negated(k: Kernel, x: Number) -> Number:
    """-x."""
    return tuple(k.emit("arith.negf", (part,), part.type) for part in x)


def conjugate(k: Kernel, x: Number) -> Number:
    """The conjugate of x; x itself if it is real."""
    return (x[0], *negated(k, x[1:]))


def times(k: Kernel, x: Number, y: Number) -> Number:
    """x y."""
    if len(x) == 1:
        return (k.arith("mulf", x[0], y[0]),)
    (x_re, x_im), (y_re, y_im) = x, y
    re = k.arith("subf", k.arith("mulf", x_re, y_re), k.arith("mulf", x_im, y_im))
    return re, k.arith("addf", k.arith("mulf", x_re, y_im), k.arith("mulf", x_im, y_re))


def square(k: Kernel, x: Number) -> Any:
    """|x|^2."""
    parts = [k.arith("mulf", part, part) for part in x]
    return parts[0] if len(parts) == 1 else k.arith("addf", *parts)


def larger(k: Kernel, most: Any, x: Number) -> Any:
    """The maximum of a number and the absolute values of the parts of x; NaN if one of them is."""
    for part in x:
        most = k.arith("maximumf", most, _absolute(k, part))
    return most


def quotient(k: Kernel, x: Number, y: Number) -> Number:
    """x / y; of complex numbers without overflow on the way.

    Source: R. L. Smith, "Algorithm 116: Complex division" (1962).
    """
    if len(x) == 1:
        return (k.arith("divf", x[0], y[0]),)
    (x_re, x_im), (y_re, y_im) = x, y
    flat = k.not_below(_absolute(k, y_re), _absolute(k, y_im))
    large, small = k.either(flat, y_re, y_im), k.either(flat, y_im, y_re)
    ratio = k.arith("divf", small, large)
    divisor = k.arith("addf", large, k.arith("mulf", small, ratio))
    first, second = k.either(flat, x_re, x_im), k.either(flat, x_im, x_re)
    re = k.arith("divf", k.arith("addf", first, k.arith("mulf", second, ratio)), divisor)
    im = k.arith("divf", k.arith("subf", second, k.arith("mulf", first, ratio)), divisor)
    return re, k.either(flat, im, k.emit("arith.negf", (im,), im.type))


def size(k: Kernel, x: Number) -> Any:
    """|x| of a real number, |re| + |im| of a complex one, by which LAPACK compares pivots."""
    parts = [_absolute(k, part) for part in x]
    return parts[0] if len(parts) == 1 else k.arith("addf", *parts)


def _absolute(k: Kernel, x: Any) -> Any:
    return k.emit("math.absf", (x,), x.type)


def one_for_zero(k: Kernel, x: Number) -> tuple[Number, Any]:
    """x, or 1 where x is zero; and whether x is zero."""
    none = k.is_zero(x[0])
    for part in x[1:]:
        none = k.arith("andi", none, k.is_zero(part))
    return (k.either(none, k.one(x[0].type), x[0]), *x[1:]), none


def integers(count: int, n: int) -> Any:
    """The type of a line with n integers for each batch."""
    return ir.RankedTensorType.get([count * n], signless(32))
