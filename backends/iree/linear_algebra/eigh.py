"""Eigenvalues and eigenvectors of Hermitian matrices: tridiagonal forms, then the QR algorithm.

    for each row, the last first:  a = h a h, in the lower triangle, where the reflection h of the rows before this
                                   one leaves only the last of the row's entries before the diagonal
    g = h_1 ... h_(n-1), row by row, times phases, so that t = g a g^H is real, and not negative off the diagonal
    sweeps of rotations, with Wilkinson's shifts, make t diagonal, and turn g into v^H

Loops run along rows.

Source: Golub and Van Loan, "Matrix Computations" (2013), section 8.3.
"""

from dataclasses import dataclass
from typing import Any

from tiduc.backends.iree.emitter import Emitter
from tiduc.backends.iree.linear_algebra.matrices import real_type, scaled, spread, unsettled
from tiduc.backends.iree.linear_algebra.program import Matrix, Program
from tiduc.backends.iree.linear_algebra.reflectors import Reflectors
from tiduc.backends.iree.linear_algebra.run import Work, run, tensors
from tiduc.backends.iree.linear_algebra.scalars import Int, Number
from tiduc.backends.iree.linear_algebra.shifts import Beside, Turns, plane, sort_rows
from tiduc.dialect.types import is_complex, shape, with_element, with_shape


def decompose(b: Emitter, x: Any, vectors: bool) -> tuple[Any, Any, Any]:
    """Vectors, or None without `vectors`; values in ascending order; and `info`, as of LAPACK's syevd."""
    unit, x, total = scaled(b, x)
    batch, n, _ = shape(x)
    of_complex = is_complex(x)

    def body(p: Program, given: Matrix, w: Matrix, left: Matrix, *others: Matrix) -> None:
        v, others = (others[:1], others[1:]) if vectors else ((), others)
        a, g, along, phases, taus, cosines, sines, d, e = others
        beside, turns = Beside(d, e), Turns(cosines, sines, [g] if vectors else [])
        step = _Matrices(a, g, along, Reflectors(a, taus, phases), beside, turns)
        with p.each(0, n) as i, p.each(0, i + 1) as j:
            a[i, j] = given[i, j]
        step.reduce()
        if vectors:
            step.accumulate()
        left[0] = beside.diagonalize(p.floor, step.sweep)
        sort_rows(d, turns.rows)
        w.copy(d)
        for y in v:
            y.copy(g, adjoint=True)

    real = with_element(x.type, real_type(x))
    types = [with_shape(real, [batch, n]), with_shape(real, [batch, 1]), *([x.type] if vectors else [])]
    square, row = Work(n, n, of_complex, padded=True), Work(1, n, of_complex)
    rows = Work(n if vectors else 0, n, of_complex, padded=True)
    work = [square, rows, row, row, *[Work(1, n)] * 4, Work(1, n + 1)]
    w, left, *v = tensors(b, *run(b, [x], types, work, body))
    left = b.reshape(left, [batch])
    w = b.multiply(w, spread(b, unit, [0], w))
    return v[0] if vectors else None, w, unsettled(b, left, 0, total)


@dataclass(frozen=True)
class _Matrices:
    """A Hermitian matrix, its tridiagonal form, and work space."""

    a: Matrix  # the lower triangle is used; then v is before the diagonal
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
            self._product(i)
            self._less(i)
        with p.each(0, n) as i:
            self.beside.d[i] = self.a[i, i].re

    def _product(self, i: Int) -> None:
        """Computes a v for the rows before row i, which has v."""
        a, p, along = self.a, self.a.p, self.along
        with p.each(0, i) as r:
            own = a[i, r]
            total = p.number(a.zero)
            with p.each(0, r) as j:
                y = a[r, j]
                total.add(y * a[i, j])
                along[j] = along[j].less(-own, y.conj)
            along[r] = total.value + a[r, r].re * own

    def _less(self, i: Int) -> None:
        """Subtracts v w^H + w v^H from the rows before row i, for w = tau (p - tau / 2 (p^H v) v) and p = a v."""
        a, p, w, tau = self.a, self.a.p, self.along, self.reflectors.taus[i]
        total = p.number(0.0)
        with p.each(0, i) as j:
            v, along = a[i, j], w[j]
            total.add(v.re * along.re)
            if a.apart:
                total.add(v.im * along.im)
        half = tau * tau * (total.value * 0.5)
        with p.each(0, i) as j:
            w[j] = (tau * w[j]).less(half, a[i, j])
        with p.each(0, i) as r:
            v_r, w_r = a[i, r], w[r]
            with p.each(0, r + 1) as j:
                a[r, j] = a[r, j].less(v_r, w[j].conj).less(w_r, a[i, j].conj)

    def accumulate(self) -> None:
        """Makes g."""
        p, n, g = self.a.p, self.a.rows, self.g
        g.unit()
        with p.each(1, n) as i, p.each(0, i) as r:
            self.reflectors.reflect_row(g, r, i, 0, i)
        phase = p.number(self.a.one)
        with p.each(1, n) as i:
            phase.set(phase.value * -self.reflectors.phases[i])
            g.scale_row(i, n, phase.value)

    def sweep(self, low: Int, high: Int) -> None:
        """Rotates the block from row `low` to row `high`."""
        p, d, e = self.a.p, self.beside.d, self.beside.e
        f, g = p.number(d[low] - self._shift(high)), p.number(e[low + 1])
        on, off = p.number(d[low]), p.number(e[low + 1])  # on the diagonal, and beside it
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
        self.turns.make(low, high)

    def _shift(self, high: Int) -> Number:
        """The eigenvalue of the last two rows of a block that is nearer to the last entry."""
        p, d = self.a.p, self.beside.d
        first, last, e = d[high.max(1) - 1], d[high], self.beside.e[high]
        half = (first - last) * 0.5
        length = (half * half + e * e).sqrt
        length = p.either(half >= 0.0, length, -length)
        return last - e * e / (half + length)
