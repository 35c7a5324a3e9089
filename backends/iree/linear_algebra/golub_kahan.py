"""Singular values and vectors in three dispatches: bidiagonal forms, made diagonal by the QR algorithm.

    t, with p a q^H = t^H, is real and bidiagonal (bidiagonal.py)
    sweeps of rotations from both sides, with Golub and Kahan's shifts, make t diagonal, and rotate rows of p and q

If a diagonal entry is negligible, the shift is zero: one or two such sweeps leave nothing beside that entry.
One line (lines.py) has what one matrix of a batch needs, and the values of all.

Sources: Golub and Van Loan, "Matrix Computations" (2013), section 8.6; zero shifts: Demmel and Kahan,
"Accurate singular values of bidiagonal matrices" (1990).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter
from tiduc.backends.iree.fast.kernels import Kernel, dispatch
from tiduc.backends.iree.linear_algebra.bidiagonal import Products, Reduction, products_of, reduction_of
from tiduc.backends.iree.linear_algebra.lines import Layout, Room, each, of_line
from tiduc.backends.iree.linear_algebra.matrices import real_type
from tiduc.backends.iree.linear_algebra.mirrors import row_times
from tiduc.backends.iree.linear_algebra.rotations import root
from tiduc.backends.iree.linear_algebra.shifts import (
    Beside,
    Turns,
    constant,
    plane,
    rounding,
    sorted_rows,
    turned_over,
)
from tiduc.dialect.types import is_complex, shape, with_shape


def decomposed(b: Emitter, x: Any, vectors: int) -> tuple[Any, ...]:
    """s, `last`, u and v^H of matrices of entries of about one; `last` is 1 without convergence, else 0.

    `vectors` is the number of the longer vectors: as many as s, as many as they are long, or 0 to leave out u
    and v^H. There are three dispatches, since IREE takes long to compile so many loops in one.
    """
    batch, *sizes = shape(x)
    n, m = sorted(sizes)
    reduction = reduction_of(b, x)
    (reduced,) = b.barrier(reduction.made(b, batch))
    products = products_of(reduction, reduced, vectors)
    lines = [reduced, *(b.barrier(products.made(b, batch)) if vectors else [])]
    room, of_complex = Room(), is_complex(x)
    rows = [
        (room.of(y.rows, y.columns, of_complex), count) for y, count in ((products.p, n), (products.q, m))
    ]
    beside = Beside(room.of(1, n), room.of(1, n + 1))
    turns = [Turns(room.of(1, n), room.of(1, n), [y] if vectors else [], b.fused) for y in rows]
    values = room.of(batch, n + 1)
    of_u, of_vh = ((m, vectors), (n, n)) if sizes[0] > n else ((n, n), (vectors, m))
    of = [with_shape(x.type, [batch, *y]) for y in (of_u, of_vh)] if vectors else []
    step = _Values(reduction, products, lines, beside, turns, values, [_layout(y) for y in of])
    types = [ir.RankedTensorType.get([room.size], real_type(x)), *(_line(y) for y in of)]
    y, *both = dispatch(
        b, types, lambda k: each(k, 0, batch, [k.empty(type_) for type_ in types], step.of_matrix)
    )
    s = b.reshape(b.slice(y, [values.start], [values.start + batch * (n + 1)], [1]), [batch, n + 1])
    last = b.reshape(b.slice(s, [0, n], [batch, n + 1], [1, 1]), [batch])
    made = (of_line(b, *pair) for pair in zip(both, of, strict=True))
    return b.slice(s, [0, 0], [batch, n], [1, 1]), last, *made


def _layout(type_: Any) -> Layout:
    return Layout(tuple(type_.shape), isinstance(type_.element_type, ir.ComplexType))


def _line(type_: Any) -> Any:
    of = type_.element_type
    count = math.prod(type_.shape)
    if isinstance(of, ir.ComplexType):
        return ir.RankedTensorType.get([2 * count], of.element_type)
    return ir.RankedTensorType.get([count], of)


@dataclass(frozen=True)
class _Values:
    """The layouts of a bidiagonal matrix and of the rows that rotate with it, and the lines to copy them from."""

    reduction: Reduction
    products: Products
    lines: Sequence[Any]
    beside: Beside
    turns: Sequence[Turns]  # rotations of the rows of p, and of q
    values: Layout
    made: Sequence[Layout]  # u, and v^H

    def of_matrix(self, k: Kernel, batch: Any, x: Any, *vectors: Any) -> Sequence[Any]:
        """Decomposes one matrix of a batch."""
        n, zero, real = self.beside.d.columns, k.index(0), x.type.element_type
        x, left = self.beside.settled(k, self._begun(k, x, batch), lambda k: rounding(k, real), self._swept)
        x = self._positive(k, x)
        rows = [rows for turns in self.turns for rows in turns.rows]
        x = sorted_rows(k, x, self.beside.d, rows, descending=True)

        def value(k: Kernel, i: Any, x: Any) -> Sequence[Any]:
            return [self.values.write(k, (self.beside.of_d(k, x, i),), x, (zero, batch, i))]

        (x,) = each(k, 0, n, [x], value)
        x = self.values.write(k, (left,), x, (zero, batch, k.index(n)))
        return [x, *self._vectors(k, x, batch, *vectors)]

    def _begun(self, k: Kernel, x: Any, batch: Any) -> Any:
        """The line with the bidiagonal matrix, p and q, copied from the other lines."""
        of, products, zero = self.reduction.at(k, batch).beside, self.products.at(k, batch), k.index(0)
        parts = [(self.beside.d, of.d, self.lines[0]), (self.beside.e, of.e, self.lines[0])]
        rows = [rows for turns in self.turns for rows in turns.rows]
        parts += [
            (to, source, self.lines[1])
            for (to, _), source in zip(rows, (products.p, products.q), strict=False)
        ]
        for to, source, line in parts:

            def row(
                k: Kernel, i: Any, x: Any, to: Layout = to, source: Layout = source, line: Any = line
            ) -> Sequence[Any]:
                def entry(k: Kernel, j: Any, x: Any) -> Sequence[Any]:
                    return [to.write(k, source.read(k, line, (zero, i, j)), x, (zero, i, j))]

                return each(k, 0, to.columns, [x], entry)

            (x,) = each(k, 0, to.rows, [x], row)
        return x

    def _vectors(self, k: Kernel, x: Any, batch: Any, *made: Any) -> Sequence[Any]:
        """u and v^H of one matrix."""
        if not made:
            return []
        (u, vh), (of_u, of_vh) = made, self.made
        of, other = (turns.rows[0][0] for turns in self.turns[:: -1 if self.reduction.tall else 1])

        def row(k: Kernel, i: Any, y: Any) -> Sequence[Any]:
            def entry(k: Kernel, j: Any, y: Any) -> Sequence[Any]:
                return [of_vh.write(k, other.read(k, x, (k.index(0), i, j)), y, (batch, i, j))]

            return each(k, 0, of_vh.columns, [y], entry)

        return [turned_over(k, x, of, u, of_u, batch), *each(k, 0, of_vh.rows, [vh], row)]

    def _positive(self, k: Kernel, x: Any) -> Any:
        """The line with values that are not negative; rows of p change their signs."""

        def row(k: Kernel, i: Any, x: Any) -> Sequence[Any]:
            own, one = self.beside.of_d(k, x, i), k.one(x.type.element_type)
            sign = k.either(k.above(k.zero(own.type), own), k.emit("arith.negf", (one,), one.type), one)
            x = self.beside.with_d(k, k.emit("math.absf", (own,), own.type), x, i)
            for of, columns in self.turns[0].rows:
                factor = (sign, k.zero(own.type)) if of.complex else (sign,)
                x = row_times(k, x, of, i, columns, factor)
            return [x]

        return each(k, 0, self.beside.d.columns, [x], row)[0]

    def _swept(self, k: Kernel, x: Any, low: Any, high: Any) -> Any:
        """The line after one sweep of the block from row `low` to row `high`."""
        p, q = self.beside.of_d(k, x, low), self.beside.of_e(k, x, k.arith("addi", low, k.index(1)))

        def row(k: Kernel, i: Any, x: Any, f: Any, g: Any, p: Any, q: Any) -> Sequence[Any]:
            """Makes g zero; p is on the diagonal, and q beside it."""
            after = k.arith("addi", i, k.index(1))
            c, s, r = plane(k, f, g)
            x = self.beside.with_e(k, k.either(k.equal(i, low), k.zero(r.type), r), x, i)
            x = self.turns[0].noted(k, x, i, c, s)
            first, above = _turned(k, c, s, p, q)
            t = self.beside.of_d(k, x, after)
            below, t = k.arith("mulf", s, t), k.arith("mulf", c, t)
            c, s, r = plane(k, first, below)
            x = self.turns[1].noted(k, self.beside.with_d(k, r, x, i), i, c, s)
            more = self.beside.of_e(k, x, k.arith("addi", after, k.index(1)))
            f, p = _turned(k, c, s, above, t)
            return [x, f, k.arith("mulf", s, more), p, k.arith("mulf", c, more)]

        x, f, _, p, _ = each(k, low, high, [x, self._begins(k, x, low, high), q, p, q], row)
        x = self.beside.with_d(k, p, self.beside.with_e(k, f, x, high), high)
        for turns in self.turns:
            x = turns.made(k, x, low, high)
        return x

    def _begins(self, k: Kernel, x: Any, low: Any, high: Any) -> Any:
        """The partner of e's first entry in the first rotation: (d^2 - shift) / d, or d if the shift is zero."""
        real = x.type.element_type
        d = self.beside.of_d(k, x, low)

        def smaller(k: Kernel, i: Any, least: Any) -> Sequence[Any]:
            return [k.arith("minimumf", least, k.emit("math.absf", (self.beside.of_d(k, x, i),), real))]

        (least,) = each(k, low, k.arith("addi", high, k.index(1)), [k.emit("math.absf", (d,), real)], smaller)
        none = k.not_below(rounding(k, real), least)
        safe = k.either(none, k.one(real), d)
        shifted = k.arith("subf", k.arith("mulf", safe, safe), self._shift(k, x, high))
        return k.either(none, d, k.arith("divf", shifted, safe))

    def _shift(self, k: Kernel, x: Any, high: Any) -> Any:
        """The eigenvalue of the last two rows of t^H t that is nearer to the last entry."""
        before = k.arith("subi", k.arith("maxui", high, k.index(1)), k.index(1))
        d, last = self.beside.of_d(k, x, before), self.beside.of_d(k, x, high)
        e, above = self.beside.of_e(k, x, high), self.beside.of_e(k, x, before)
        first, second = (_squares(k, *pair) for pair in ((d, above), (last, e)))
        half = k.arith("mulf", k.arith("subf", first, second), constant(k, e.type, 0.5))
        beside = k.arith("mulf", d, e)
        length = root(k, _squares(k, half, beside))
        less = k.emit("arith.negf", (length,), e.type)
        both = k.arith("addf", half, k.either(k.not_below(half, k.zero(e.type)), length, less))
        both = k.either(k.is_zero(both), k.one(e.type), both)
        return k.arith("subf", second, k.arith("divf", k.arith("mulf", beside, beside), both))


def _squares(k: Kernel, x: Any, y: Any) -> Any:
    """x^2 + y^2."""
    return k.arith("addf", k.arith("mulf", x, x), k.arith("mulf", y, y))


def _turned(k: Kernel, c: Any, s: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """c x + s y, and c y - s x."""
    first = k.arith("addf", k.arith("mulf", c, x), k.arith("mulf", s, y))
    return first, k.arith("subf", k.arith("mulf", c, y), k.arith("mulf", s, x))
