"""Singular values and vectors: reduction to bidiagonal form, then the QR algorithm.

    for each row of a (of the adjoint of a, if a has more rows than columns):
        a reflection from the right, after which only the diagonal entry of the row is not zero
        a reflection from the left, after which only one entry below the diagonal of the column is not zero
    p is the product of the adjoints of the reflections from the left, the last one first;
    q is that of the reflections from the right; so t^H = p a q^H is real and lower bidiagonal
    sweeps of rotations from both sides, with Golub and Kahan's shifts, make t diagonal, and rotate rows of p and q

If a diagonal entry is negligible, the shift is zero. One or two sweeps with shift zero make the entries beside this
diagonal entry zero. The inner loops run along rows, which are contiguous in memory.

Sources: Golub and Van Loan, "Matrix Computations" (2013), sections 5.4.8 and 8.6; zero shifts: Demmel and Kahan,
"Accurate singular values of bidiagonal matrices" (1990).
"""

from collections.abc import Sequence
from functools import partial

from tiduc.backends.iree.linear_algebra import shifts
from tiduc.backends.iree.linear_algebra.program import Matrix, MatrixProgram
from tiduc.backends.iree.linear_algebra.reflectors import Reflectors
from tiduc.backends.iree.linear_algebra.run import program
from tiduc.backends.iree.linear_algebra.scalars import Int, Number


@program
def decompose(p: MatrixProgram, x: Matrix, *, vectors: int) -> list[Matrix]:
    """u, the singular values in descending order, v^H, and `info`, as LAPACK's gesdd returns them.

    `vectors` is the number of vectors on the longer side of an m by n matrix: min(m, n), max(m, n), or 0. If it is 0,
    only the values and `info` are returned.
    """
    (n, m), tall = sorted((x.rows, x.columns)), x.rows > x.columns
    s, info = p.result(1, n, "real"), p.result(1, 1, "integer")
    a, columns, row = p.work(n, m, padded=True), p.work(n, n, padded=True), p.work(1, m)
    right, left = Reflectors(a, p.work(1, n)), Reflectors(columns, p.work(1, n))
    diagonals = shifts.Diagonals.make(p, n)
    of_p = [p.work(n, n, padded=True)] if vectors else []
    of_q = [p.work(vectors, m, padded=True)] if vectors else []
    rotations = shifts.Rotations.make(p, n, of_p), shifts.Rotations.make(p, n, of_q)
    a.copy(x.adjoint if tall else x)
    unit, total = shifts.scale(a)
    _reduce(a, diagonals, right, left, row)
    for matrix in of_q:
        _accumulate(matrix, right, n, 0)
    for matrix in of_p:
        _accumulate(matrix, left, n - 1, 1)
    couples, sweep = partial(diagonals.couples, p.epsilon), partial(_sweep, diagonals, *rotations)
    info[0] = shifts.qr_algorithm(p, n, couples, sweep, total)
    _make_positive(diagonals.d, of_p)
    shifts.sort_rows(diagonals.d, [*of_p, *of_q], descending=True)
    with p.each(0, n) as i:
        s[i] = unit * diagonals.d[i]
    if not vectors:
        return [s, info]
    of_u, of_v = (of_q, of_p) if tall else (of_p, of_q)
    u, vh = p.result(x.rows, of_u[0].rows), p.result(of_v[0].rows, x.columns)
    u.copy(of_u[0].adjoint)
    vh.copy(of_v[0])
    return [u, s, vh, info]


def _reduce(a: Matrix, diagonals: shifts.Diagonals, right: Reflectors, left: Reflectors, row: Matrix) -> None:
    """Reduces a to the bidiagonal form `diagonals` by reflections from both sides, stored in `right` and `left`."""
    p, n, m = a.p, a.rows, a.columns
    with p.each(0, n) as i:
        after = i + 1
        diagonals.d[i] = right.make(i, i, m, i)
        with p.each(after, n) as r:
            right.reflect_row(a, r, i, i, m)
            left.vh[i, r] = a[r, i].conj
        with p.when(p.logical_not(after.equals(n))):
            diagonals.e[after] = left.make(i, after, n, after)
            left.reflect_columns(a, row, i, (after, n), (after, m))


def _accumulate(x: Matrix, reflectors: Reflectors, count: int, beside: int) -> None:
    """Sets x to H_(count-1)^H ... H_1^H H_0^H, for reflections H_i whose v is 1 in column i + `beside`."""
    p = x.p
    x.set_identity()
    with p.each_reversed(count) as i:
        with p.each(i + beside, x.rows) as r:
            reflectors.reflect_row(x, r, i, i + beside, x.columns, adjoint=True)


def _make_positive(d: Matrix, of_p: Sequence[Matrix]) -> None:
    """Makes negative entries of d positive, and changes the signs of the rows of p that belong to them."""
    p = d.p
    with p.each(0, d.columns) as i:
        own = d[i]
        sign = p.select(p.scalar(0.0) > own, -1.0, 1.0)
        d[i] = abs(own)
        for x in of_p:
            with p.each(0, x.columns) as j:
                x[i, j] = sign * x[i, j]


def _sweep(
    diagonals: shifts.Diagonals, of_p: shifts.Rotations, of_q: shifts.Rotations, low: Int, high: Int, _: Int
) -> None:
    """Applies one sweep of rotations to the block from row `low` to row `high`."""
    d = diagonals.d

    def rotate(i: Int, c: Number, s: Number, on: Number, off: Number) -> Sequence[Number]:
        """Rotates rows i and i + 1 of t^H, then columns i and i + 1, which makes t^H lower triangular again."""
        of_p.add(i, c, s)
        first, above = c * on + s * off, c * off - s * on
        below, after = s * d[i + 1], c * d[i + 1]
        c, s, r = shifts.plane(first, below)
        of_q.add(i, c, s)
        return c, s, r, c * above + s * after, c * after - s * above

    diagonals.chase(low, high, _start(diagonals, low, high), rotate)
    for rotations in (of_p, of_q):
        rotations.apply(low, high)


def _start(diagonals: shifts.Diagonals, low: Int, high: Int) -> Number:
    """The entry that the first rotation pairs with e[low + 1]: (x^2 - shift) / x, where x is d[low].

    The shift is the eigenvalue of the last 2 by 2 submatrix of t^H t that is nearer to the last diagonal entry of this
    submatrix. If a diagonal entry of the block is negligible, the shift is zero, and the result is x.
    """
    d, e, before = diagonals.d, diagonals.e, high.max(1) - 1
    p, own = d.p, d[low]
    least = p.variable(abs(own))
    with p.each(low, high + 1) as i:
        least.set(least.value.min(abs(d[i])))
    product = d[before] * e[high]
    first, last = d[before] * d[before] + e[before] * e[before], d[high] * d[high] + e[high] * e[high]
    shift = shifts.nearer_eigenvalue(first, product * product, last)
    none = p.epsilon >= least.value
    safe = p.select(none, 1.0, own)
    return p.select(none, own, (safe * safe - shift) / safe)
