"""Bidiagonal forms of matrices, or of the adjoints of tall ones, by reflections in one dispatch.

    for each row:  the reflection from the right that leaves only the diagonal entry of the row,
                   the reflection from the left that leaves only one entry below the diagonal of the column
    p and q, the products of the reflections from the left and from the right, from the last on, times phases, so
    that p a q^H is real, not negative, and zero but for the diagonal and the one below it

Loops run along rows.

Source: Golub and Van Loan, "Matrix Computations" (2013), section 5.4.8.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter
from tiduc.backends.iree.fast.kernels import Kernel, dispatch
from tiduc.backends.iree.linear_algebra.lines import (
    Layout,
    Number,
    Room,
    conjugate,
    each,
    layout,
    less_product,
    lines,
    negated,
    times,
)
from tiduc.backends.iree.linear_algebra.mirrors import Reflectors, row_times, unit_matrix
from tiduc.backends.iree.linear_algebra.rotations import width_of
from tiduc.backends.iree.linear_algebra.shifts import Beside
from tiduc.dialect.types import is_complex, shape


def reduction_of(b: Emitter, x: Any) -> "Reduction":
    """The reduction of matrices to bidiagonal form."""
    _, *sizes = shape(x)
    n, m = sorted(sizes)
    room, of_complex = Room(), is_complex(x)
    a, columns = (room.of(n, width_of(count), of_complex) for count in (m, n))
    w = room.of(1, m, of_complex)
    right, left = (Reflectors(room.of(1, n), room.of(1, n, of_complex), b.fused) for _ in range(2))
    beside = Beside(room.of(1, n), room.of(1, n + 1))
    return Reduction(a, columns, w, right, left, beside, layout(x), lines(b, x), room.size)


@dataclass(frozen=True)
class Reduction:
    """The layouts, in a line, of a matrix, of its bidiagonal form and of work space; and the given matrices."""

    a: Layout  # the matrix, or the adjoint of a tall one; then v of reflections from the right
    columns: Layout  # v of reflections from the left
    w: Layout
    from_right: Reflectors
    from_left: Reflectors
    beside: Beside
    of_given: Layout
    given: Number
    size: int  # the length that a matrix takes in the line

    @property
    def tall(self) -> bool:
        """Whether the matrix has more rows than columns."""
        return self.of_given.rows > self.a.rows

    @property
    def m(self) -> int:
        """The number of columns of the matrix, or of the adjoint of a tall one."""
        return max(self.of_given.rows, self.of_given.columns)

    def made(self, b: Emitter, batch: int) -> Any:
        """The line with the reduction of all matrices."""
        type_ = ir.RankedTensorType.get([batch * self.size], self.given[0].type.element_type)

        def of_matrix(k: Kernel, i: Any, x: Any) -> Sequence[Any]:
            step = self.at(k, i)
            return [step._reduced(k, step._begun(k, x, i))]

        (y,) = dispatch(b, [type_], lambda k: each(k, 0, batch, [k.empty(type_)], of_matrix))
        return y

    def at(self, k: Kernel, batch: Any) -> "Reduction":
        """The layouts of one matrix of a batch."""
        by = k.arith("muli", batch, k.index(self.size))
        return replace(
            self,
            a=self.a.moved(k, by),
            columns=self.columns.moved(k, by),
            w=self.w.moved(k, by),
            from_right=self.from_right.moved(k, by),
            from_left=self.from_left.moved(k, by),
            beside=self.beside.moved(k, by),
        )

    def _begun(self, k: Kernel, x: Any, batch: Any) -> Any:
        """The line with the matrix, and with zeros at both ends of e."""
        of = replace(self.a, turned=self.tall)

        def row(k: Kernel, i: Any, x: Any) -> Sequence[Any]:
            def entry(k: Kernel, j: Any, x: Any) -> Sequence[Any]:
                v = self.of_given.given(k, self.given, (batch, i, j))
                return [of.write(k, conjugate(k, v) if self.tall else v, x, (k.index(0), i, j))]

            return each(k, 0, self.of_given.columns, [x], entry)

        return each(k, 0, self.of_given.rows, [self.beside.begun(k, x)], row)[0]

    def _reduced(self, k: Kernel, x: Any) -> Any:
        """The line with reflections, and the bidiagonal matrix."""
        n, m, zero = self.a.rows, k.index(self.m), k.index(0)

        def row(k: Kernel, i: Any, x: Any) -> Sequence[Any]:
            after = k.arith("addi", i, k.index(1))
            v = (self.a, i, i, m)
            x, length = self.from_right.made(k, x, v, i)
            x = self.beside.with_d(k, length, x, i)
            tau = self.from_right.tau(k, x, i)
            (x,) = each(k, after, n, [x], lambda k, r, x: [self.from_right.row(k, x, self.a, r, v, tau)])

            def of_column(k: Kernel, r: Any, x: Any) -> Sequence[Any]:
                y = conjugate(k, self.a.read(k, x, (zero, r, i)))
                return [self.columns.write(k, y, x, (zero, i, r))]

            (x,) = each(k, after, n, [x], of_column)
            return each(k, i, k.arith("minui", after, k.index(n - 1)), [x], left)

        def left(k: Kernel, i: Any, x: Any) -> Sequence[Any]:
            after = k.arith("addi", i, k.index(1))
            x, length = self.from_left.made(k, x, (self.columns, i, after, k.index(n)), after)
            return [self._from_left(k, self.beside.with_e(k, length, x, after), i)]

        return each(k, 0, n, [x], row)[0]

    def _from_left(self, k: Kernel, x: Any, i: Any) -> Any:
        """The line with the columns after column i reflected, by w = v^H a."""
        n, m, zero = self.a.rows, self.m, k.index(0)
        after, tau = k.arith("addi", i, k.index(1)), self.from_left.tau(k, x, i)
        none = (k.zero(x.type.element_type),) * (2 if self.a.complex else 1)
        (x,) = each(k, after, m, [x], lambda k, j, x: [self.w.write(k, none, x, (zero, zero, j))])

        def more(k: Kernel, r: Any, x: Any) -> Sequence[Any]:
            factor = negated(k, conjugate(k, self.columns.read(k, x, (zero, i, r))))

            def entry(k: Kernel, j: Any, x: Any) -> Sequence[Any]:
                y, w = self.a.read(k, x, (zero, r, j)), self.w.read(k, x, (zero, zero, j))
                w = less_product(k, w, factor, y, self.from_left.fused)
                return [self.w.write(k, w, x, (zero, zero, j))]

            return each(k, after, m, [x], entry)

        def less(k: Kernel, r: Any, x: Any) -> Sequence[Any]:
            v = self.columns.read(k, x, (zero, i, r))
            factor = tuple(k.arith("mulf", tau, part) for part in v)

            def entry(k: Kernel, j: Any, x: Any) -> Sequence[Any]:
                y, w = self.a.read(k, x, (zero, r, j)), self.w.read(k, x, (zero, zero, j))
                y = less_product(k, y, factor, w, self.from_left.fused)
                return [self.a.write(k, y, x, (zero, r, j))]

            return each(k, after, m, [x], entry)

        return each(k, after, n, each(k, after, n, [x], more), less)[0]


def products_of(of: Reduction, line: Any, vectors: int) -> "Products":
    """The accumulation of p, and of `vectors` rows of q, from the reflections in a line."""
    room, n = Room(), of.a.rows
    q = room.of(vectors, of.a.columns, of.a.complex)
    p = room.of(n if vectors else 0, of.columns.columns, of.a.complex)
    return Products(q, p, of, line, room.size)


@dataclass(frozen=True)
class Products:
    """The layouts, in a line, of products of the reflections, which are in another line."""

    q: Layout
    p: Layout
    of: Reduction
    line: Any
    size: int  # the length that a matrix takes in the line

    def made(self, b: Emitter, batch: int) -> Any:
        """The line with the products of all matrices."""
        type_ = ir.RankedTensorType.get([batch * self.size], self.line.type.element_type)

        def of_matrix(k: Kernel, i: Any, x: Any) -> Sequence[Any]:
            return [replace(self.at(k, i), of=self.of.at(k, i))._accumulated(k, x)]

        (y,) = dispatch(b, [type_], lambda k: each(k, 0, batch, [k.empty(type_)], of_matrix))
        return y

    def at(self, k: Kernel, batch: Any) -> "Products":
        """The layouts of one matrix of a batch."""
        by = k.arith("muli", batch, k.index(self.size))
        return replace(self, q=self.q.moved(k, by), p=self.p.moved(k, by))

    def _accumulated(self, k: Kernel, x: Any) -> Any:
        """The line with p and q."""
        of, line, n, m = self.of, self.line, self.p.rows, self.of.m
        x = unit_matrix(k, unit_matrix(k, x, self.p, n), self.q, m)

        def of_q(k: Kernel, s: Any, x: Any) -> Sequence[Any]:
            i = k.arith("subi", k.index(n - 1), s)
            v, tau = (of.a, i, i, k.index(m)), of.from_right.tau(k, line, i)

            def row(k: Kernel, r: Any, x: Any) -> Sequence[Any]:
                return [of.from_right.row(k, x, self.q, r, v, tau, line)]

            return each(k, i, self.q.rows, [x], row)

        def of_p(k: Kernel, s: Any, x: Any) -> Sequence[Any]:
            i = k.arith("subi", k.index(n - 2), s)
            after = k.arith("addi", i, k.index(1))
            v, tau = (of.columns, i, after, k.index(n)), of.from_left.tau(k, line, i)

            def row(k: Kernel, r: Any, x: Any) -> Sequence[Any]:
                return [of.from_left.row(k, x, self.p, r, v, tau, line)]

            return each(k, after, n, [x], row)

        (x,) = each(k, 0, n - 1, each(k, 0, n, [x], of_q), of_p)
        one = (k.one(x.type.element_type), *[k.zero(x.type.element_type)] * (1 if self.p.complex else 0))

        def phased(k: Kernel, i: Any, x: Any, *phase: Any) -> Sequence[Any]:
            x = row_times(k, x, self.p, i, n, phase)
            of_q = times(k, phase, negated(k, conjugate(k, of.from_right.phase(k, line, i))))
            x = row_times(k, x, self.q, i, m, of_q)
            return [x, *times(k, of_q, negated(k, conjugate(k, of.from_left.phase(k, line, i))))]

        return each(k, 0, n, [x, *one], phased)[0]
