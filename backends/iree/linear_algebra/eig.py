"""Eigenvalues and eigenvectors of square matrices by the QR algorithm.

    a = z h z^H:  reflections reduce a to Hessenberg form, in which h has only one diagonal below the main one
    h = q t q^H:  sweeps of rotations, each with a shift, make h triangular; the sweeps also rotate the rows of z^H
    back substitution gives the eigenvectors of t

Real matrices are converted to complex ones. Eigenvectors have length one, and their largest component is real.

Source: Golub and Van Loan, "Matrix Computations" (2013), chapter 7; exceptional shifts: LAPACK's zlahqr.
"""

from dataclasses import dataclass

from tiduc.backends.iree.emit.emitter import Emitter
from tiduc.backends.iree.linear_algebra import shifts
from tiduc.backends.iree.linear_algebra.program import Matrix, MatrixProgram
from tiduc.backends.iree.linear_algebra.reflectors import Reflectors
from tiduc.backends.iree.linear_algebra.run import program
from tiduc.backends.iree.linear_algebra.scalars import Int, Number
from tiduc.dialect.emitters.matrices import adjoint
from tiduc.dialect.ops.ir_types import IrValue


def decompose(b: Emitter, x: IrValue, *, left: bool, right: bool) -> list[IrValue]:
    """The n eigenvalues of each matrix; the requested left and right eigenvectors, as columns; and `info`.

    The eigenvalues are in no particular order. `info` is 1 if the iteration does not converge or the matrix is not
    finite, and otherwise 0.
    """
    w, t, zh, info = _schur(b, x)
    vectors = []
    if left:  # right eigenvectors of t^H, which is upper triangular after its rows and columns are reversed
        (v,) = _vectors(b, b.reverse(adjoint(b, t), [1, 2]), b.reverse(zh, [1]))
        vectors.append(b.reverse(v, [2]))
    if right:
        vectors += _vectors(b, t, zh)
    return [w, *vectors, info]


@program
def _schur(p: MatrixProgram, x: Matrix) -> list[Matrix]:
    """The Schur form x = z t z^H: returns the eigenvalues; t, divided by a power of two; z^H; and `info`."""
    n = x.rows
    w, t, zh = p.result(1, n, "complex"), p.result(n, n, "complex"), p.result(n, n, "complex")
    info, row = p.result(1, 1, "integer"), p.work(1, n, "complex")
    reflectors = Reflectors(p.work(n, n, "complex", padded=True), p.work(1, n, "complex"))
    step = _Sweeps(t, shifts.Rotations.make(p, n, [zh], "complex"))
    t.copy(x)
    unit, total = shifts.scale(t)
    with p.when(p.logical_not(p.scalar(float("inf")) > total)), p.each(0, n) as i, p.each(0, n) as j:
        t[i, j] = 0.0
    _reduce(t, zh, reflectors, row)
    info[0] = shifts.qr_algorithm(p, n, step.couples, step.sweep, total)
    rounding = total.sqrt * p.epsilon * float(n)
    with p.each(0, n) as i:
        own = t[i, i]
        if p.kind == "real":  # small imaginary parts are rounding errors, and are set to 0
            own = p.select(rounding >= abs(own.im), own.re, own)
        w[i] = unit * own
    return [w, t, zh, info]


def _reduce(h: Matrix, zh: Matrix, reflectors: Reflectors, row: Matrix) -> None:
    """Reduces h to a Hessenberg matrix, in place, with one reflection for each column, and sets `zh` to z^H."""
    p, n = h.p, h.rows
    zh.set_identity()
    with p.each(0, max(n - 2, 0)) as j:
        below = j + 1
        with p.each(below, n) as r:
            reflectors.vh[j, r] = h[r, j].conj
        beta = reflectors.make(j, below, n, below)
        reflectors.reflect_columns(h, row, j, (below, n), (below, n))
        reflectors.reflect_columns(zh, row, j, (below, n), (0, n))
        with p.each(0, n) as r:
            reflectors.reflect_row(h, r, j, below, n)
        h[below, j] = beta
        with p.each(j + 2, n) as r:
            h[r, j] = 0.0


@dataclass(frozen=True)
class _Sweeps:
    """The two callbacks of `shifts.qr_algorithm` for the matrix t. Each sweep also rotates the rows of z^H."""

    t: Matrix
    rotations: shifts.Rotations  # the rotations of the rows of z^H

    def couples(self, i: Int) -> IrValue:
        """Returns whether the entry to the left of t[i, i] is not negligible. Sets a negligible entry to zero."""
        p, t = self.t.p, self.t
        beside = t[i - 1, i - 1].size + t[i, i].size
        limit = p.floor.max(p.epsilon * p.select(beside.is_zero, 1.0, beside))
        large = t[i, i - 1].size > limit
        t[i, i - 1] = p.select(large, t[i, i - 1], 0.0)
        return large

    def _shift(self, high: Int, since: Int) -> Number:
        """Wilkinson's shift: the eigenvalue of the block's last 2 by 2 submatrix that is nearer to t[high, high].

        Every tenth sweep since the last convergence uses another shift, in case the sweeps repeat in a cycle.
        """
        t, before = self.t, high.max(1) - 1
        last, beside = t[high, high], t[high, before]
        shift = shifts.nearer_eigenvalue(t[before, before], t[before, high] * beside, last)
        return t.p.select((since % 10).equals(9), last + beside.length * 0.75, shift)

    def sweep(self, low: Int, high: Int, since: Int) -> None:
        """One QR step: rotates each pair of adjacent rows and of adjacent columns, from row `low` to row `high`."""
        p, t, n, shift = self.t.p, self.t, self.t.rows, self._shift(high, since)
        with p.each(low, high) as k:
            first, before = k.equals(low), k.max(1) - 1
            x = p.select(first, t[k, k] - shift, t[k, before])
            y = p.select(first, t[k + 1, k], t[k + 1, before])
            c, s, _ = shifts.plane(x, y)
            self.rotations.add(k, c.conj, s.conj)
            shifts.rotate(t, [k, k + 1], [(c.conj, s.conj)], before, n)
            t[k + 1, before] = p.select(first, t[k + 1, before], 0.0)
            shifts.rotate(t.transpose, [k, k + 1], [(c, s)], 0, (k + 2).min(high) + 1)
        self.rotations.apply(low, high)


# ---- eigenvectors -----------------------------------------------------------------------------------------------


@program
def _vectors(p: MatrixProgram, t: Matrix, zh: Matrix) -> list[Matrix]:
    """The columns z u, scaled to length one, for the eigenvectors u of the triangular matrix t. `zh` is z^H."""
    n = t.rows
    v, x, rows = p.result(n, n), p.work(1, n), p.work(n, n, padded=True)
    most = p.largest(0, n, lambda i: p.largest(i, n, lambda j: t[i, j]))
    with p.each(0, n) as c:
        _substitute(t, x, c, p.epsilon * most)
        with p.each(0, n) as j:
            rows[c, j] = 0.0
        with p.each(0, c + 1) as i, p.each(0, n) as j:
            rows[c, j] = rows[c, j] + x[i] * zh[i, j].conj
        _normalize(rows, c)
    v.transpose.copy(rows)
    return [v]


def _substitute(t: Matrix, x: Matrix, c: Int, gap: Number) -> None:
    """Writes to x the eigenvector of t for the eigenvalue t[c, c].

    A difference of two eigenvalues below `gap` is replaced by `gap`. If an entry exceeds 1, the vector is scaled down.
    """
    p = t.p
    x[c] = 1.0
    with p.each_reversed(c) as i:
        total = p.sum(i + 1, c + 1, lambda j: t[i, j] * x[j], t.zero)
        difference = t[c, c] - t[i, i]
        difference = p.select(gap > difference.largest_part, gap, difference)
        x[i] = total / p.select(difference.is_zero, 1.0, difference)
        size = x[i].largest_part.max(1.0)
        with p.when(size > 1.0), p.each(i, c + 1) as j:
            x[j] = x[j] / size


def _normalize(rows: Matrix, c: Int) -> None:
    """Scales row c so that its length is one and its largest component is real."""
    p, n = rows.p, rows.columns
    top = p.largest(0, n, lambda j: rows[c, j])
    with p.each(0, n) as j:
        rows[c, j] = rows[c, j] / top
    at = p.place_of_largest(0, n, lambda j: rows[c, j].square)
    total = p.sum(0, n, lambda j: rows[c, j].square)
    phase = rows[c, at].conj / rows[c, at].square.sqrt / total.sqrt
    with p.each(0, n) as j:
        y = rows[c, j] * phase
        rows[c, j] = p.select(j.equals(at), y.re, y)
