"""What QR algorithms with shifts share: blocks that are not diagonal yet, and the rotations of a sweep.

An entry beside the diagonal is small if it is at most epsilon times the sum of its neighbours on the
diagonal, or negligible.

Source: Golub and Van Loan, "Matrix Computations" (2013), section 8.3.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch_mlir import ir

from tiduc.backends.iree.fast.kernels import Kernel
from tiduc.backends.iree.linear_algebra.lines import Layout, conjugate, each, less_product
from tiduc.backends.iree.linear_algebra.rotations import root

STEPS = 30
"""The most sweeps per value, on average, as in LAPACK; about two are usual."""

_TOGETHER = 2  # rotations applied at once, so that a row is read and written once for them
_STRIP = 8  # columns that are read while as many rows are written

Rows = tuple[Layout, int]
"""A matrix in a line, and the number of its columns that are used."""


def constant(k: Kernel, type_: Any, value: float) -> Any:
    """A constant of a floating-point type."""
    return k.emit("arith.constant", (), type_, {"value": ir.FloatAttr.get(type_, value)})


def rounding(k: Kernel, type_: Any) -> Any:
    """The distance from 1 to the next number."""
    return constant(k, type_, float(np.finfo(np.float64 if type_.width == 64 else np.float32).eps))


def floor(k: Kernel, type_: Any) -> Any:
    """A number that is negligible beside entries of about one, but whose square has all its digits."""
    return constant(k, type_, 2.0 ** (-400 if type_.width == 64 else -40))


@dataclass(frozen=True)
class Beside:
    """The layouts of a diagonal d and of e beside it, where e[i] is between d[i - 1] and d[i]."""

    d: Layout
    e: Layout  # one entry longer than d: the first and the last are zero

    def moved(self, k: Kernel, by: Any) -> "Beside":
        """These layouts shifted by an offset."""
        return Beside(self.d.moved(k, by), self.e.moved(k, by))

    def begun(self, k: Kernel, x: Any) -> Any:
        """The line with zeros at the ends of e."""
        for i in (0, self.e.columns - 1):
            x = self.with_e(k, k.zero(x.type.element_type), x, k.index(i))
        return x

    def with_e(self, k: Kernel, v: Any, x: Any, i: Any) -> Any:
        """The line with e[i] = v."""
        return self.e.write(k, (v,), x, (k.index(0), k.index(0), i))

    def with_d(self, k: Kernel, v: Any, x: Any, i: Any) -> Any:
        """The line with d[i] = v."""
        return self.d.write(k, (v,), x, (k.index(0), k.index(0), i))

    def of_e(self, k: Kernel, x: Any, i: Any) -> Any:
        """e[i]."""
        return self.e.read(k, x, (k.index(0), k.index(0), i))[0]

    def of_d(self, k: Kernel, x: Any, i: Any) -> Any:
        """d[i]."""
        return self.d.read(k, x, (k.index(0), k.index(0), i))[0]

    def settled(
        self, k: Kernel, x: Any, least: Callable[[Kernel], Any], sweep: Callable[..., Any]
    ) -> tuple[Any, Any]:
        """The line once e is negligible, and 0; or 1 without convergence.

        `sweep(k, x, low, high)` gives the line after a sweep of the rows from `low` to `high`, which are one
        row where all is done. Entries of e up to `least(k)` are negligible.
        """
        zero, n = k.index(0), self.d.columns

        def step(k: Kernel, _: Any, x: Any, high: Any) -> Sequence[Any]:
            low, high = self._block(k, x, high, least(k))
            return [sweep(k, x, low, high), high]

        def some(k: Kernel, _: Any, x: Any, high: Any) -> Sequence[Any]:
            count = k.either(k.equal(high, zero), zero, k.index(n))
            return k.loop(zero, count, k.index(1), [x, high], step)

        x, high = each(k, 0, STEPS, [x, k.index(n - 1)], some)
        real = x.type.element_type
        return x, k.either(k.equal(high, zero), k.zero(real), k.one(real))

    def _block(self, k: Kernel, x: Any, high: Any, least: Any) -> tuple[Any, Any]:
        """The first and the last row of the last block up to row `high`; twice the first row where all is done."""
        zero, real = k.index(0), x.type.element_type
        part = rounding(k, real)

        def entry(k: Kernel, i: Any, start: Any, low: Any, end: Any) -> Sequence[Any]:
            entries = self.of_e(k, x, i), self.of_d(k, x, k.arith("subi", i, k.index(1))), self.of_d(k, x, i)
            size, *others = (k.emit("math.absf", (y,), real) for y in entries)
            limit = k.arith("maximumf", least, k.arith("mulf", part, k.arith("addf", *others)))
            some = k.above(size, limit)  # false for a NaN
            return [k.either(some, start, i), k.either(some, start, low), k.either(some, i, end)]

        _, low, end = each(k, 1, k.arith("addi", high, k.index(1)), [zero] * 3, entry)
        return low, end


def plane(k: Kernel, f: Any, g: Any) -> tuple[Any, Any, Any]:
    """c, s and r with c f + s g = r and c g - s f = 0; 1, 0 and f if both are negligible."""
    real = f.type
    square = k.arith("addf", k.arith("mulf", f, f), k.arith("mulf", g, g))
    flat = k.not_below(k.arith("mulf", *[floor(k, real)] * 2), square)
    r = k.either(flat, k.one(real), root(k, square))
    c = k.either(flat, k.one(real), k.arith("divf", f, r))
    return c, k.either(flat, k.zero(real), k.arith("divf", g, r)), k.either(flat, f, r)


@dataclass(frozen=True)
class Turns:
    """The rotations of a sweep, as cosines and sines by the first of both rows; and matrices to rotate."""

    cosines: Layout
    sines: Layout
    rows: Sequence[Rows]
    fused: bool

    def noted(self, k: Kernel, x: Any, i: Any, c: Any, s: Any) -> Any:
        """The line with one more rotation."""
        for of, v in ((self.cosines, c), (self.sines, s)):
            x = of.write(k, (v,), x, (k.index(0), k.index(0), i))
        return x

    def made(self, k: Kernel, x: Any, low: Any, high: Any) -> Any:
        """The line with rows i and i + 1 rotated, for i from `low` to below `high`."""
        rest = k.arith("remui", k.arith("subi", high, low), k.index(_TOGETHER))
        middle = k.arith("subi", high, rest)
        for rows in self.rows:

            def turn(k: Kernel, i: Any, x: Any, count: int = _TOGETHER, rows: Rows = rows) -> Sequence[Any]:
                return self._turned(k, x, rows, i, count)

            def turn_one(k: Kernel, i: Any, x: Any, rows: Rows = rows) -> Sequence[Any]:
                return self._turned(k, x, rows, i, 1)

            (x,) = k.loop(low, middle, k.index(_TOGETHER), [x], turn)
            (x,) = each(k, middle, high, [x], turn_one)
        return x

    def _turned(self, k: Kernel, x: Any, rows: Rows, i: Any, count: int) -> Sequence[Any]:
        zero, (of, columns) = k.index(0), rows
        places = [k.arith("addi", i, k.index(n)) for n in range(count + 1)]
        turns = []
        for at in places[:-1]:
            c, s = (part.read(k, x, (zero, zero, at))[0] for part in (self.cosines, self.sines))
            turns.append((c, s, k.emit("arith.negf", (s,), s.type)))

        def part(k: Kernel, c: Any, u: Any, s: Any, v: Any) -> Any:
            """c u - s v."""
            return less_product(k, (k.arith("mulf", c, u),), (s,), (v,), self.fused)[0]

        def entry(k: Kernel, j: Any, x: Any) -> Sequence[Any]:
            y, *others = (of.read(k, x, (zero, at, j)) for at in places)
            for at, (c, s, minus), other in zip(places, turns, others, strict=False):
                first = tuple(part(k, c, u, minus, v) for u, v in zip(y, other, strict=True))
                y = tuple(part(k, c, v, s, u) for u, v in zip(y, other, strict=True))
                x = of.write(k, first, x, (zero, at, j))
            return [of.write(k, y, x, (zero, places[-1], j))]

        return each(k, 0, columns, [x], entry)


def sorted_rows(k: Kernel, x: Any, of: Layout, rows: Sequence[Rows], descending: bool = False) -> Any:
    """The line with numbers in order, and the rows of matrices in the order of their numbers.

    Each number is there once, even if some are NaN.
    """
    zero, n = k.index(0), of.columns

    def place(k: Kernel, i: Any, x: Any) -> Sequence[Any]:
        own = of.read(k, x, (zero, zero, i))[0]

        def other(k: Kernel, j: Any, at: Any, first: Any) -> Sequence[Any]:
            y = of.read(k, x, (zero, zero, j))[0]
            before = k.above(y, first) if descending else k.above(first, y)
            return [k.either(before, j, at), k.either(before, y, first)]

        at, first = each(k, k.arith("addi", i, k.index(1)), n, [i, own], other)
        x = of.write(k, (own,), x, (zero, zero, at))
        x = of.write(k, (first,), x, (zero, zero, i))
        for layout, columns in rows:

            def entry(k: Kernel, j: Any, x: Any, layout: Layout = layout) -> Sequence[Any]:
                upper, lower = (layout.read(k, x, (zero, row, j)) for row in (i, at))
                x = layout.write(k, lower, x, (zero, i, j))
                return [layout.write(k, upper, x, (zero, at, j))]

            (x,) = each(k, 0, columns, [x], entry)
        return [x]

    return each(k, 0, n, [x], place)[0]


def turned_over(k: Kernel, x: Any, of: Layout, y: Any, of_y: Layout, batch: Any) -> Any:
    """The line y with the adjoint of a matrix in the line x, in strips of its columns."""

    def strip(k: Kernel, first: Any, y: Any) -> Sequence[Any]:
        end = k.arith("minui", k.arith("addi", first, k.index(_STRIP)), k.index(of_y.rows))

        def row(k: Kernel, i: Any, y: Any) -> Sequence[Any]:
            def entry(k: Kernel, j: Any, y: Any) -> Sequence[Any]:
                v = conjugate(k, of.read(k, x, (k.index(0), i, j)))
                return [of_y.write(k, v, y, (batch, j, i))]

            return each(k, first, end, [y], entry)

        return each(k, 0, of_y.columns, [y], row)

    return k.loop(k.index(0), k.index(of_y.rows), k.index(_STRIP), [y], strip)[0]
