"""Eigenvalues and eigenvectors of Hermitian matrices in one dispatch: tridiagonal forms, then the QR algorithm.

    for each row, the last first:  a = h a h, in the lower triangle, where the reflection h of the rows before this
                                   one leaves only the last of the row's entries before the diagonal
    g = h_1 ... h_(n-1), row by row, times phases, so that t = g a g^H is real, and not negative off the diagonal
    sweeps of rotations, with Wilkinson's shifts, make t diagonal, and turn g into v^H

Loops run along rows. One line (lines.py) has what one matrix of a batch needs, and the values of all.

Source: Golub and Van Loan, "Matrix Computations" (2013), section 8.3.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter
from tiduc.backends.iree.fast.kernels import Kernel, dispatch
from tiduc.backends.iree.linear_algebra.lines import (
    Layout,
    Number,
    Room,
    added,
    conjugate,
    each,
    layout,
    less_product,
    lines,
    negated,
    of_line,
    times,
    type_of_line,
)
from tiduc.backends.iree.linear_algebra.matrices import real_type
from tiduc.backends.iree.linear_algebra.mirrors import Reflectors, row_times, unit_matrix
from tiduc.backends.iree.linear_algebra.rotations import root, width_of
from tiduc.backends.iree.linear_algebra.shifts import (
    Beside,
    Turns,
    constant,
    floor,
    plane,
    sorted_rows,
    turned_over,
)
from tiduc.dialect.types import is_complex, shape


def tridiagonalized(b: Emitter, x: Any, vectors: bool) -> tuple[Any, Any, Any]:
    """Vectors, or None without `vectors`; values in ascending order; and 1 without convergence, else 0.

    The matrices are Hermitian, with entries of about one.
    """
    batch, n, _ = shape(x)
    room, of_complex = Room(), is_complex(x)
    a, g = (room.of(rows, width_of(n), of_complex) for rows in (n, n if vectors else 0))
    p, phases = (room.of(1, n, of_complex) for _ in range(2))
    d, taus, cosines, sines = (room.of(1, n) for _ in range(4))
    beside, reflectors = Beside(d, room.of(1, n + 1)), Reflectors(taus, phases, b.fused)
    turns = Turns(cosines, sines, [(g, n)] if vectors else [], b.fused)
    values = room.of(batch, n + 1)
    step = _Matrices(a, g, p, reflectors, beside, turns, values, layout(x), lines(b, x))
    types = [ir.RankedTensorType.get([room.size], real_type(x)), *([type_of_line(x)] if vectors else [])]
    made = dispatch(
        b, types, lambda k: each(k, 0, batch, [k.empty(type_) for type_ in types], step.of_matrix)
    )
    end = values.start + batch * (n + 1)
    w = b.reshape(b.slice(made[0], [values.start], [end], [1]), [batch, n + 1])
    last = b.reshape(b.slice(w, [0, n], [batch, n + 1], [1, 1]), [batch])
    v = of_line(b, made[1], x.type) if vectors else None
    return v, b.slice(w, [0, 0], [batch, n], [1, 1]), last


@dataclass(frozen=True)
class _Matrices:
    """The layouts, in a line, of a matrix, of its tridiagonal form and of work space; and the given matrices."""

    a: Layout  # the lower triangle is used; then v is before the diagonal
    g: Layout
    p: Layout
    reflectors: Reflectors
    beside: Beside
    turns: Turns
    values: Layout
    of_given: Layout
    given: Number

    def of_matrix(self, k: Kernel, batch: Any, x: Any, *vectors: Any) -> Sequence[Any]:
        """Decomposes one matrix of a batch."""
        n, zero, real = self.a.rows, k.index(0), x.type.element_type
        x = self._reduced(k, self._begun(k, x, batch))
        if vectors:
            x = self._accumulated(k, x)
        x, left = self.beside.settled(k, x, lambda k: floor(k, real), self._swept)
        x = sorted_rows(k, x, self.beside.d, self.turns.rows)

        def value(k: Kernel, i: Any, x: Any) -> Sequence[Any]:
            return [self.values.write(k, (self.beside.of_d(k, x, i),), x, (zero, batch, i))]

        (x,) = each(k, 0, n, [x], value)
        x = self.values.write(k, (left,), x, (zero, batch, k.index(n)))
        return [x, *(turned_over(k, x, self.g, y, self.of_given, batch) for y in vectors)]

    def _begun(self, k: Kernel, x: Any, batch: Any) -> Any:
        """The line with the matrix, and with zeros at both ends of e."""

        def row(k: Kernel, i: Any, x: Any) -> Sequence[Any]:
            def entry(k: Kernel, j: Any, x: Any) -> Sequence[Any]:
                v = self.of_given.given(k, self.given, (batch, i, j))
                return [self.a.write(k, v, x, (k.index(0), i, j))]

            return each(k, 0, k.arith("addi", i, k.index(1)), [x], entry)

        return each(k, 0, self.a.rows, [self.beside.begun(k, x)], row)[0]

    # ---- a tridiagonal matrix -------------------------------------------------------------------------------

    def _reduced(self, k: Kernel, x: Any) -> Any:
        """The line with reflections, and the tridiagonal matrix."""
        n, zero = self.a.rows, k.index(0)

        def row(k: Kernel, s: Any, x: Any) -> Sequence[Any]:
            i = k.arith("subi", k.index(n - 1), s)
            before = k.arith("subi", i, k.index(1))
            x, length = self.reflectors.made(k, x, (self.a, i, zero, i), before)
            x = self.beside.with_e(k, length, x, i)
            return [self._less(k, self._product(k, x, i), i)]

        def own(k: Kernel, i: Any, x: Any) -> Sequence[Any]:
            return [self.beside.with_d(k, self.a.read(k, x, (zero, i, i))[0], x, i)]

        (x,) = each(k, 0, n - 1, [x], row)
        return each(k, 0, n, [x], own)[0]

    def _product(self, k: Kernel, x: Any, i: Any) -> Any:
        """The line with p = a v, for the rows before row i, which has v."""
        zero = k.index(0)
        none = [k.zero(x.type.element_type)] * (2 if self.a.complex else 1)

        def row(k: Kernel, r: Any, x: Any) -> Sequence[Any]:
            v_r = self.a.read(k, x, (zero, i, r))
            factor = negated(k, v_r)

            def entry(k: Kernel, j: Any, x: Any, *sums: Any) -> Sequence[Any]:
                y = self.a.read(k, x, (zero, r, j))
                v, p = self._both(k, x, i, j)
                sums = tuple(added(k, *pair) for pair in zip(sums, times(k, y, v), strict=True))
                p = less_product(k, p, factor, conjugate(k, y), self.turns.fused)
                return [self.p.write(k, p, x, (zero, zero, j)), *sums]

            x, *sums = each(k, 0, r, [x, *none], entry)
            own = self.a.read(k, x, (zero, r, r))[0]
            p = (k.arith("addf", y, k.arith("mulf", own, v)) for y, v in zip(sums, v_r, strict=True))
            return [self.p.write(k, tuple(p), x, (zero, zero, r))]

        return each(k, 0, i, [x], row)[0]

    def _less(self, k: Kernel, x: Any, i: Any) -> Any:
        """The line with the rows before row i less v w^H + w v^H, for w = tau (p - tau / 2 (p^H v) v)."""
        zero, tau = k.index(0), self.reflectors.tau(k, x, i)

        def more(k: Kernel, j: Any, total: Any) -> Sequence[Any]:
            for pair in zip(*self._both(k, x, i, j), strict=True):
                total = added(k, total, k.arith("mulf", *pair))
            return [total]

        (total,) = each(k, 0, i, [k.zero(tau.type)], more)
        half = k.arith("mulf", k.arith("mulf", tau, tau), k.arith("mulf", total, constant(k, tau.type, 0.5)))

        def w(k: Kernel, j: Any, x: Any) -> Sequence[Any]:
            parts = (
                less_product(k, (k.arith("mulf", tau, p),), (half,), (v,), self.turns.fused)[0]
                for v, p in zip(*self._both(k, x, i, j), strict=True)
            )
            return [self.p.write(k, tuple(parts), x, (zero, zero, j))]

        def row(k: Kernel, r: Any, x: Any) -> Sequence[Any]:
            v_r, w_r = self._both(k, x, i, r)

            def entry(k: Kernel, j: Any, x: Any) -> Sequence[Any]:
                v, w = self._both(k, x, i, j)
                y = self.a.read(k, x, (zero, r, j))
                y = less_product(k, y, v_r, conjugate(k, w), self.turns.fused)
                y = less_product(k, y, w_r, conjugate(k, v), self.turns.fused)
                return [self.a.write(k, y, x, (zero, r, j))]

            return each(k, 0, k.arith("addi", r, k.index(1)), [x], entry)

        return each(k, 0, i, each(k, 0, i, [x], w), row)[0]

    def _both(self, k: Kernel, x: Any, i: Any, j: Any) -> tuple[Number, Number]:
        """Entries j of row i's v, and of p, or w."""
        zero = k.index(0)
        return self.a.read(k, x, (zero, i, j)), self.p.read(k, x, (zero, zero, j))

    def _accumulated(self, k: Kernel, x: Any) -> Any:
        """The line with g."""
        n, zero = self.a.rows, k.index(0)
        one = (k.one(x.type.element_type), *[k.zero(x.type.element_type)] * (1 if self.a.complex else 0))

        def reflected(k: Kernel, i: Any, x: Any) -> Sequence[Any]:
            v, tau = (self.a, i, zero, i), self.reflectors.tau(k, x, i)
            return each(k, 0, i, [x], lambda k, r, x: [self.reflectors.row(k, x, self.g, r, v, tau)])

        def phased(k: Kernel, i: Any, x: Any, *phase: Any) -> Sequence[Any]:
            phase = times(k, phase, negated(k, self.reflectors.phase(k, x, i)))
            return [row_times(k, x, self.g, i, n, phase), *phase]

        (x,) = each(k, 1, n, [unit_matrix(k, x, self.g, n)], reflected)
        return each(k, 1, n, [x, *one], phased)[0]

    # ---- its values -----------------------------------------------------------------------------------------

    def _swept(self, k: Kernel, x: Any, low: Any, high: Any) -> Any:
        """The line after one sweep of the block from row `low` to row `high`."""
        first, shift = self.beside.of_d(k, x, low), self._shift(k, x, high)
        beside = self.beside.of_e(k, x, k.arith("addi", low, k.index(1)))

        def row(k: Kernel, i: Any, x: Any, f: Any, g: Any, p: Any, q: Any) -> Sequence[Any]:
            """Makes g zero; p is on the diagonal, and q beside it."""
            after = k.arith("addi", i, k.index(1))
            c, s, r = plane(k, f, g)
            x = self.beside.with_e(k, k.either(k.equal(i, low), k.zero(r.type), r), x, i)
            t, cq = self.beside.of_d(k, x, after), k.arith("mulf", c, q)
            h = k.arith("addf", k.arith("mulf", s, k.arith("subf", t, p)), k.arith("addf", cq, cq))
            sh = k.arith("mulf", s, h)
            x = self.beside.with_d(k, k.arith("addf", p, sh), x, i)
            x = self.turns.noted(k, x, i, c, s)
            more = self.beside.of_e(k, x, k.arith("addi", after, k.index(1)))
            f = k.arith("subf", k.arith("mulf", c, h), q)
            return [x, f, k.arith("mulf", s, more), k.arith("subf", t, sh), k.arith("mulf", c, more)]

        f = k.arith("subf", first, shift)
        x, f, _, p, _ = each(k, low, high, [x, f, beside, first, beside], row)
        x = self.beside.with_d(k, p, self.beside.with_e(k, f, x, high), high)
        return self.turns.made(k, x, low, high)

    def _shift(self, k: Kernel, x: Any, high: Any) -> Any:
        """The eigenvalue of the last two rows of a block that is nearer to the last entry."""
        before = k.arith("subi", k.arith("maxui", high, k.index(1)), k.index(1))
        first, last = self.beside.of_d(k, x, before), self.beside.of_d(k, x, high)
        e = self.beside.of_e(k, x, high)
        half = k.arith("mulf", k.arith("subf", first, last), constant(k, e.type, 0.5))
        square = k.arith("mulf", e, e)
        length = root(k, k.arith("addf", k.arith("mulf", half, half), square))
        less = k.emit("arith.negf", (length,), e.type)
        length = k.either(k.not_below(half, k.zero(e.type)), length, less)
        return k.arith("subf", last, k.arith("divf", square, k.arith("addf", half, length)))
