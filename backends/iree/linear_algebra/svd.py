"""Singular values and vectors in three dispatches: bidiagonal forms, made diagonal by the QR algorithm.

    for each row of a, or of the adjoint of a tall a:
        the reflection from the right that leaves only the diagonal entry of the row,
        the reflection from the left that leaves only one entry below the diagonal of the column
    p and q, the products of the reflections from the left and from the right, from the last on, times phases, so
    that t^H = p a q^H is real, not negative, and zero but for the diagonal and the one below it
    sweeps of rotations from both sides, with Golub and Kahan's shifts, make t diagonal, and rotate rows of p and q

If a diagonal entry is negligible, the shift is zero: one or two such sweeps leave nothing beside that entry.
Loops run along rows. There are three dispatches, since IREE takes long to compile so many loops in one.

Sources: Golub and Van Loan, "Matrix Computations" (2013), sections 5.4.8 and 8.6; zero shifts: Demmel and Kahan,
"Accurate singular values of bidiagonal matrices" (1990).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter
from tiduc.backends.iree.linear_algebra.matrices import everywhere, real_type, scaled, unsettled
from tiduc.backends.iree.linear_algebra.program import Matrix, Program
from tiduc.backends.iree.linear_algebra.reflectors import Reflectors
from tiduc.backends.iree.linear_algebra.run import Lines, Work, padded, run, tensors
from tiduc.backends.iree.linear_algebra.scalars import Int, Number
from tiduc.backends.iree.linear_algebra.shifts import Beside, Turns, plane, sort_rows
from tiduc.dialect.types import is_complex, shape, with_element, with_shape


def decompose(b: Emitter, x: Any, vectors: int) -> tuple[Any, ...]:
    """s in descending order, `info` as of LAPACK's gesdd, u and v^H.

    `vectors` is the number of the longer vectors: as many as s, as many as they are long, or 0 to leave out u
    and v^H.
    """
    unit, x, total = scaled(b, x)
    batch, rows, columns = shape(x)
    n, tall = min(rows, columns), rows > columns
    reduced = _reduced(b, x, tall)
    products = _products(b, reduced, vectors, max(rows, columns)) if vectors else []
    of_u, of_vh = ((rows, vectors), (n, n)) if tall else ((n, n), (vectors, columns))
    of = [with_shape(x.type, [batch, *y]) for y in (of_u, of_vh)] if vectors else []
    s, left, *both = _diagonal(b, reduced[:2], products, of, tall)
    info = unsettled(b, b.reshape(left, [batch]), 0, total)
    return b.multiply(s, everywhere(b, unit, s)), info, *both


# ---- bidiagonal forms -------------------------------------------------------------------------------------------


def _reduced(b: Emitter, x: Any, tall: bool) -> list[Lines]:
    """The lines of d, e, the reflections from the right and from the left: v, tau and phases of each."""
    batch, *sizes = shape(x)
    (n, m), of_complex = sorted(sizes), is_complex(x)

    def body(p: Program, given: Matrix, d: Matrix, e: Matrix, *others: Matrix) -> None:
        a, *right, columns, taus, phases, w = others
        right_, left = Reflectors(a, *right), Reflectors(columns, taus, phases)
        a.copy(given, adjoint=tall)
        Beside(d, e).clear_ends()
        with p.each(0, n) as i:
            after = i + 1
            d[i] = right_.make(i, i, m, i)
            with p.each(after, n) as r:
                right_.reflect_row(a, r, i, i, m)
                columns[i, r] = a[r, i].conj
            with p.when(after.differs(n)):
                e[after] = left.make(i, after, n, after)
                left.reflect_columns(a, w, i, (after, n), (after, m))

    real = with_element(x.type, real_type(x))
    types = [with_shape(real, [batch, n]), with_shape(real, [batch, n + 1])]
    for count in (m, n):
        types.append(with_shape(x.type, [batch, n, padded(count)]))
        types += [with_shape(type_, [batch, n]) for type_ in (real, x.type)]
    return run(b, [x], types, [Work(1, m, of_complex)], body)


def _products(b: Emitter, reduced: Sequence[Lines], vectors: int, m: int) -> list[Lines]:
    """The lines of p, and of `vectors` rows of q, from the reflections."""
    batch, n, _ = reduced[2].type.shape

    def body(p: Program, *matrices: Matrix) -> None:
        right, left = (Reflectors(*matrices[i : i + 3]) for i in (0, 3))
        of_p, of_q = matrices[6:]
        of_p.unit()
        of_q.unit()
        with p.each(0, n) as s:
            i = n - 1 - s
            with p.each(i, vectors) as r:
                right.reflect_row(of_q, r, i, i, m)
        with p.each(0, n - 1) as s:
            i = n - 2 - s
            with p.each(i + 1, n) as r:
                left.reflect_row(of_p, r, i, i + 1, n)
        phase = p.number(of_p.one)
        with p.each(0, n) as i:
            of_p.scale_row(i, n, phase.value)
            phase.set(phase.value * -right.phases[i].conj)
            of_q.scale_row(i, m, phase.value)
            phase.set(phase.value * -left.phases[i].conj)

    types = [with_shape(reduced[2].type, [batch, *sizes]) for sizes in ((n, padded(n)), (vectors, padded(m)))]
    return run(b, reduced[2:], types, [], body)


# ---- the values -------------------------------------------------------------------------------------------------


def _diagonal(
    b: Emitter, reduced: Sequence[Lines], products: Sequence[Lines], of: Any, tall: bool
) -> list[Any]:
    """s, 0 or 1 without convergence, u and v^H, whose types are `of`."""
    batch, n = reduced[0].type.shape
    real = reduced[0].type

    def body(p: Program, *matrices: Matrix) -> None:
        found, work = matrices[2 + len(products) :], matrices[-6 - len(products) :]
        d, e, c_p, s_p, c_q, s_q, *rows = work
        for x, given in zip((d, e, *rows), matrices, strict=False):
            x.copy(given)
        step = _Values(Beside(d, e), Turns(c_p, s_p, rows[:1]), Turns(c_q, s_q, rows[1:]))
        found[1][0] = step.beside.diagonalize(p.epsilon, step.sweep)
        step.make_positive()
        sort_rows(d, rows, descending=True)
        found[0].copy(d)
        if of:
            found[2].copy(rows[1 if tall else 0], adjoint=True)
            found[3].copy(rows[0 if tall else 1])

    types = [with_shape(real, [batch, n]), with_shape(real, [batch, 1]), *of]
    work = [Work(1, n), Work(1, n + 1), *[Work(1, n)] * 4]
    if of:
        (_, rows, columns), of_complex = of[0].shape, isinstance(of[0].element_type, ir.ComplexType)
        vectors, m = (columns, rows) if tall else of[1].shape[1:]
        work += [Work(n, n, of_complex, padded=True), Work(vectors, m, of_complex, padded=True)]
    return tensors(b, *run(b, [*reduced, *products], types, work, body))


@dataclass(frozen=True)
class _Values:
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
            sign = p.either(p.constant(0.0) > own, -1.0, p.constant(1.0))
            d[i] = abs(own)
            for x in self.of_p.rows:
                x.scale_row(i, x.columns, sign)

    def sweep(self, low: Int, high: Int) -> None:
        """Rotates the block from row `low` to row `high`."""
        d, e = self.beside.d, self.beside.e
        p = d.p
        f, g = p.number(self._start(low, high)), p.number(e[low + 1])
        on, off = p.number(d[low]), p.number(e[low + 1])  # on the diagonal, and beside it
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
            turns.make(low, high)

    def _start(self, low: Int, high: Int) -> Number:
        """The partner of e's first entry in the first rotation: (d^2 - shift) / d, or d if the shift is zero."""
        p, own = self.beside.d.p, self.beside.d[low]
        least = p.number(abs(own))
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
