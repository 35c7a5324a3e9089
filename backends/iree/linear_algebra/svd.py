"""Singular values and vectors: bidiagonal forms, made diagonal by the QR algorithm.

    for each row of a, or of the adjoint of a tall a:
        the reflection from the right that leaves only the diagonal entry of the row,
        the reflection from the left that leaves only one entry below the diagonal of the column
    p and q, the products of the adjoints of the reflections from the left and from the right, from the last on, so that
    t^H = p a q^H is real, and zero but for the diagonal and the one below it
    sweeps of rotations from both sides, with Golub and Kahan's shifts, make t diagonal, and rotate rows of p and q

If a diagonal entry is negligible, the shift is zero: one or two such sweeps leave nothing beside that entry.
Loops run along rows.

Sources: Golub and Van Loan, "Matrix Computations" (2013), sections 5.4.8 and 8.6; zero shifts: Demmel and Kahan,
"Accurate singular values of bidiagonal matrices" (1990).
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
from tiduc.dialect.types import is_complex, shape, with_shape


def decompose(b: Emitter, x: Any, vectors: int) -> list[Any]:
    """Values s [batch, min(m, n)], descending; `info` [batch, 1], as of LAPACK's gesdd; and u and v^H.

    `vectors` is the number of the longer vectors: as many as s, as many as they are long, or 0 to leave out u
    and v^H.
    """
    batch, rows, columns = shape(x)
    (n, m), tall, of_complex = sorted((rows, columns)), rows > columns, is_complex(x)

    def body(p: Program, given: Matrix, s: Matrix, info: Matrix, *others: Matrix) -> None:
        both, others = (others[:2], others[2:]) if vectors else ((), others)
        a, columns, of_p, of_q, w, *taus, d, e, c_p, s_p, c_q, s_q = others
        a.copy(given.adjoint if tall else given)
        unit, total = scale(a)
        beside = Beside(d, e)
        right, left = Reflectors(a, taus[0]), Reflectors(columns, taus[1])
        _reduce(a, beside, right, left, w)
        if vectors:
            _accumulate(of_p, of_q, right, left)
        products = [[of_p], [of_q]] if vectors else [[], []]
        step = _Bidiagonal(beside, Turns(c_p, s_p, products[0]), Turns(c_q, s_q, products[1]))
        write_info(info, beside.diagonalize(p.epsilon, step.sweep), total)
        step.make_positive()
        sort_rows(d, [x for product in products for x in product], descending=True)
        with p.each(0, n) as i:
            s[i] = unit * d[i]
        for y, product in zip(both, (of_q.adjoint, of_p) if tall else (of_p.adjoint, of_q), strict=False):
            y.copy(product)

    sizes = [(rows, vectors), (n, n)] if tall else [(n, n), (vectors, columns)]
    types = [real_rows(x, n), integers(batch, 1)]
    types += [with_shape(x.type, [batch, *size]) for size in sizes if vectors]
    spaces = [(n, m), (n, n), (n if vectors else 0, n), (vectors, m)]
    work = [Work(*size, of_complex, padded=True) for size in spaces]
    work += [*[Work(1, k, of_complex) for k in (m, n, n)], Work(1, n), Work(1, n + 1), *[Work(1, n)] * 4]
    return run(b, [x], types, work, body)


def _reduce(a: Matrix, beside: Beside, right: Reflectors, left: Reflectors, w: Matrix) -> None:
    """Makes a bidiagonal, and the reflections."""
    p, n, m = a.p, a.rows, a.columns
    beside.clear_ends()
    with p.each(0, n) as i:
        after = i + 1
        beside.d[i] = right.make(i, i, m, i)
        with p.each(after, n) as r:
            right.reflect_row(a, r, i, i, m)
            left.vh[i, r] = a[r, i].conj
        with p.when(p.no(after.equals(n))):
            beside.e[after] = left.make(i, after, n, after)
            left.reflect_columns(a, w, i, (after, n), (after, m))


def _accumulate(of_p: Matrix, of_q: Matrix, right: Reflectors, left: Reflectors) -> None:
    """Makes p and q from the reflections."""
    p, n = of_p.p, of_p.rows
    of_p.set_identity()
    of_q.set_identity()
    with p.each(0, n) as s:
        i = n - 1 - s
        with p.each(i, of_q.rows) as r:
            right.reflect_row(of_q, r, i, i, of_q.columns, adjoint=True)
    with p.each(0, n - 1) as s:
        i = n - 2 - s
        with p.each(i + 1, n) as r:
            left.reflect_row(of_p, r, i, i + 1, n, adjoint=True)


@dataclass(frozen=True)
class _Bidiagonal:
    """A bidiagonal matrix, and the rotations of p and q."""

    beside: Beside
    of_p: Turns
    of_q: Turns

    def make_positive(self) -> None:
        """Makes values not negative; rows of p change their signs."""
        d = self.beside.d
        p = d.p
        with p.each(0, d.columns) as i:
            own = d[i]
            sign = p.either(p.number(0.0) > own, -1.0, 1.0)
            d[i] = abs(own)
            for x in self.of_p.matrices:
                x.scale_row(i, sign)

    def sweep(self, low: Int, high: Int) -> None:
        """Rotates the block from row `low` to row `high`."""
        d, e = self.beside.d, self.beside.e
        p = d.p
        f, g = p.variable(self._start(low, high)), p.variable(e[low + 1])
        on, off = p.variable(d[low]), p.variable(e[low + 1])  # on the diagonal, and beside it
        with p.each(low, high) as i:
            c, s, r = plane(f.value, g.value)  # makes g zero
            e[i] = p.either(i.equals(low), 0.0, r)
            self.of_p.note(i, c, s)
            first, above = c * on.value + s * off.value, c * off.value - s * on.value
            below, t = s * d[i + 1], c * d[i + 1]
            c, s, r = plane(first, below)
            d[i] = r
            self.of_q.note(i, c, s)
            more = e[i + 2]
            f.set(c * above + s * t)
            on.set(c * t - s * above)
            g.set(s * more)
            off.set(c * more)
        e[high], d[high] = f.value, on.value
        for turns in (self.of_p, self.of_q):
            turns.apply(low, high)

    def _start(self, low: Int, high: Int) -> Number:
        """The partner of e's first entry in the first rotation: (d^2 - shift) / d, or d if the shift is zero."""
        p, own = self.beside.d.p, self.beside.d[low]
        least = p.variable(abs(own))
        with p.each(low, high + 1) as i:
            least.set(least.value.min(abs(self.beside.d[i])))
        none = p.epsilon >= least.value
        safe = p.either(none, 1.0, own)
        return p.either(none, own, (safe * safe - self._shift(high)) / safe)

    def _shift(self, high: Int) -> Number:
        """The eigenvalue of the last two rows of t^H t that is nearer to the last entry."""
        before = high.max(1) - 1
        d, e = self.beside.d[before], self.beside.e[high]
        last, above = self.beside.d[high], self.beside.e[before]
        first, second = d * d + above * above, last * last + e * e
        half, beside = (first - second) * 0.5, d * e
        p, length = d.p, (half * half + beside * beside).sqrt
        both = half + p.either(half >= 0.0, length, -length)
        return second - beside * beside / p.either(both.is_zero, 1.0, both)
