"""Eigenvalues and eigenvectors of Hermitian matrices: tridiagonal forms, then the QR algorithm.

    for each row, the last first:  a = h^H a h, in the lower triangle, where the reflection h of the rows before this
                                   one leaves only the last of the row's entries before the diagonal
    g = h_1^H ... h_(n-1)^H, row by row, so that t = g a g^H is real and tridiagonal
    sweeps of rotations, with Wilkinson's shifts, make t diagonal, and turn g into v^H

Loops run along rows.

Source: Golub and Van Loan, "Matrix Computations" (2013), section 8.3.
"""

from dataclasses import dataclass
from typing import Any

from tiduc.backends.iree.emitter import Emitter
from tiduc.backends.iree.linear_algebra.matrices import integers, real_rows
from tiduc.backends.iree.linear_algebra.program import Matrix, Program
from tiduc.backends.iree.linear_algebra.reflectors import Reflectors
from tiduc.backends.iree.linear_algebra.run import Work, run
from tiduc.backends.iree.linear_algebra.scalars import Int, Number
from tiduc.backends.iree.linear_algebra.shifts import Beside, Turns, plane, scale, sort_rows, write_info
from tiduc.dialect.types import is_complex, shape


def decompose(b: Emitter, x: Any, vectors: bool) -> list[Any]:
    """Values [batch, n], ascending; `info` [batch, 1], as of LAPACK's syevd; and vectors [batch, n, n] if asked for.

    Only the lower triangles of x [batch, n, n] are read, and the real parts of diagonals.
    """
    batch, n, _ = shape(x)
    of_complex = is_complex(x)

    def body(p: Program, given: Matrix, w: Matrix, info: Matrix, *others: Matrix) -> None:
        v, others = (others[:1], others[1:]) if vectors else ((), others)
        a, g, along, taus, cosines, sines, d, e = others
        beside, turns = Beside(d, e), Turns(cosines, sines, [g] if vectors else [])
        step = _Tridiagonal(a, g, along, Reflectors(a, taus), beside, turns)
        with p.each(0, n) as i:
            with p.each(0, i) as j:
                a[i, j] = given[i, j]
            a[i, i] = given[i, i].re
        unit, total = scale(a, lower=True)
        step.reduce()
        if vectors:
            step.accumulate()
        write_info(info, beside.diagonalize(p.floor, step.sweep), total)
        sort_rows(d, turns.matrices)
        with p.each(0, n) as i:
            w[i] = unit * d[i]
        for y in v:
            y.copy(g.adjoint)

    types = [real_rows(x, n), integers(batch, 1), *([x.type] if vectors else [])]
    square, row = Work(n, n, of_complex, padded=True), Work(1, n, of_complex)
    rows = Work(n if vectors else 0, n, of_complex, padded=True)
    return run(b, [x], types, [square, rows, row, row, *[Work(1, n)] * 3, Work(1, n + 1)], body)


@dataclass(frozen=True)
class _Tridiagonal:
    """A Hermitian matrix, its tridiagonal form, and the products of reflections and rotations."""

    a: Matrix  # the lower triangle is used; in the end, v^H of the reflections is before the diagonal
    g: Matrix
    along: Matrix
    reflectors: Reflectors
    beside: Beside
    turns: Turns

    def reduce(self) -> None:
        """Makes the tridiagonal matrix, and the reflections."""
        p, n = self.a.p, self.a.rows
        self.beside.clear_ends()
        with p.each(0, n - 1) as s:
            i = n - 1 - s
            self.beside.e[i] = self.reflectors.make(i, 0, i, i - 1)
            self._multiply(i)
            self._update(i)
        with p.each(0, n) as i:
            self.beside.d[i] = self.a[i, i].re

    def _multiply(self, i: Int) -> None:
        """Computes a v for the rows before row i, which has v^H."""
        a, p, along = self.a, self.a.p, self.along
        with p.each(0, i) as r:
            own, total = a[i, r].conj, p.variable(a.zero)
            with p.each(0, r) as j:
                total.add(a[r, j] * a[i, j].conj)
                along[j] = along[j] + own * a[r, j].conj
            along[r] = total.value + a[r, r].re * own

    def _update(self, i: Int) -> None:
        """Subtracts v w^H + w v^H from the rows before row i, where p = a v, w = tau p - |tau|^2 / 2 (v^H p) v."""
        a, p, w, tau = self.a, self.a.p, self.along, self.reflectors.taus[i]
        total = p.variable(0.0)
        with p.each(0, i) as j:
            total.add((a[i, j] * w[j]).re)
        half = tau.square * total.value * 0.5
        with p.each(0, i) as j:
            w[j] = tau * w[j] - half * a[i, j].conj
        with p.each(0, i) as r:
            v_r, w_r = a[i, r].conj, w[r]
            with p.each(0, r + 1) as j:
                a[r, j] = a[r, j] - v_r * w[j].conj - w_r * a[i, j]

    def accumulate(self) -> None:
        """Makes g."""
        p, n = self.a.p, self.a.rows
        self.g.set_identity()
        with p.each(1, n) as i, p.each(0, i) as r:
            self.reflectors.reflect_row(self.g, r, i, 0, i, adjoint=True)

    def sweep(self, low: Int, high: Int) -> None:
        """Rotates the block from row `low` to row `high`."""
        p, d, e = self.a.p, self.beside.d, self.beside.e
        f, g = p.variable(d[low] - self._shift(high)), p.variable(e[low + 1])
        on, off = p.variable(d[low]), p.variable(e[low + 1])  # on the diagonal, and beside it
        with p.each(low, high) as i:
            c, s, r = plane(f.value, g.value)  # makes g zero
            e[i] = p.either(i.equals(low), 0.0, r)
            t, cq = d[i + 1], c * off.value
            h = s * (t - on.value) + (cq + cq)
            sh = s * h
            d[i] = on.value + sh
            self.turns.note(i, c, s)
            more = e[i + 2]
            f.set(c * h - off.value)
            g.set(s * more)
            on.set(t - sh)
            off.set(c * more)
        e[high], d[high] = f.value, on.value
        self.turns.apply(low, high)

    def _shift(self, high: Int) -> Number:
        """The eigenvalue of the last two rows of a block that is nearer to the last entry."""
        p, d = self.a.p, self.beside.d
        first, last, e = d[high.max(1) - 1], d[high], self.beside.e[high]
        half = (first - last) * 0.5
        length = (half * half + e * e).sqrt
        return last - e * e / (half + p.either(half >= 0.0, length, -length))
