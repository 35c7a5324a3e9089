"""Eigenvalues and eigenvectors of Hermitian matrices: reduction to tridiagonal form, then the QR algorithm.

    for each row, the last first:  a = h^H a h, in the lower triangle, for a reflection h that makes all entries of
                                   the row zero, except the diagonal entry and the entry to its left
    g = h_1^H ... h_(n-1)^H, row by row, so that t = g a g^H is real and tridiagonal
    sweeps of rotations, with Wilkinson's shifts, make t diagonal, and turn g into v^H

The inner loops run along rows, which are contiguous in memory.

Source: Golub and Van Loan, "Matrix Computations" (2013), section 8.3.
"""

from collections.abc import Sequence
from functools import partial

from tiduc.backends.iree.linear_algebra import shifts
from tiduc.backends.iree.linear_algebra.program import Matrix, MatrixProgram
from tiduc.backends.iree.linear_algebra.reflectors import Reflectors
from tiduc.backends.iree.linear_algebra.run import program
from tiduc.backends.iree.linear_algebra.scalars import Int, Number


@program
def decompose(p: MatrixProgram, x: Matrix, *, vectors: bool) -> list[Matrix]:
    """Eigenvectors, as columns, if `vectors` is set; ascending eigenvalues; and `info`, as LAPACK's syevd gives them.

    Reads only the lower triangle of x, and the real part of its diagonal.
    """
    n = x.rows
    w, info = p.result(1, n, "real"), p.result(1, 1, "integer")
    v = [p.result(n, n) for _ in range(vectors)]
    g = [p.work(n, n, padded=True) for _ in v]
    a, row = p.work(n, n, padded=True), p.work(1, n)
    reflectors, diagonals = Reflectors(a, p.work(1, n)), shifts.Diagonals.make(p, n)
    rotations = shifts.Rotations.make(p, n, g)
    with p.each(0, n) as i:
        with p.each(0, i) as j:
            a[i, j] = x[i, j]
        a[i, i] = x[i, i].re
    unit, total = shifts.scale(a, lower=True)
    _reduce(a, reflectors, diagonals, row)
    for matrix in g:
        matrix.set_identity()
        with p.each(1, n) as i, p.each(0, i) as r:
            reflectors.reflect_row(matrix, r, i, 0, i, adjoint=True)
    couples, sweep = partial(diagonals.couples, p.floor), partial(_sweep, diagonals, rotations)
    info[0] = shifts.qr_algorithm(p, n, couples, sweep, total)
    shifts.sort_rows(diagonals.d, g)
    with p.each(0, n) as i:
        w[i] = unit * diagonals.d[i]
    for y, matrix in zip(v, g, strict=True):
        y.copy(matrix.adjoint)
    return [*v, w, info]


def _reduce(a: Matrix, reflectors: Reflectors, diagonals: shifts.Diagonals, row: Matrix) -> None:
    """Reduces a Hermitian matrix to the tridiagonal form `diagonals`. Row i of a then holds v^H of reflection i."""
    p, n = a.p, a.rows
    with p.each_reversed(n - 1) as before:
        i = before + 1
        diagonals.e[i] = reflectors.make(i, 0, i, before)
        _multiply(a, i, row)
        _update(a, i, row, reflectors.taus[i])
    with p.each(0, n) as i:
        diagonals.d[i] = a[i, i].re


def _multiply(a: Matrix, i: Int, row: Matrix) -> None:
    """Multiplies the leading i by i submatrix of a by v, and writes the product to `row`. Row i of a holds v^H.

    Reads only the lower triangle of the submatrix, which is Hermitian.
    """
    p = a.p
    with p.each(0, i) as r:
        own, total = a[i, r].conj, p.variable(a.zero)
        with p.each(0, r) as j:
            total.add(a[r, j] * a[i, j].conj)
            row[j] = row[j] + own * a[r, j].conj
        row[r] = total.value + a[r, r].re * own


def _update(a: Matrix, i: Int, w: Matrix, tau: Number) -> None:
    """Subtracts v w^H + w v^H from the rows above row i, where w = tau u - |tau|^2 / 2 (v^H u) v and u = a v.

    At the beginning, the argument `w` holds u, which `_multiply` has written. Row i of a holds v^H.
    """
    p = a.p
    half = tau.square * p.sum(0, i, lambda j: (a[i, j] * w[j]).re) * 0.5
    with p.each(0, i) as j:
        w[j] = tau * w[j] - half * a[i, j].conj
    with p.each(0, i) as r:
        v_r, w_r = a[i, r].conj, w[r]
        with p.each(0, r + 1) as j:
            a[r, j] = a[r, j] - v_r * w[j].conj - w_r * a[i, j]


def _sweep(diagonals: shifts.Diagonals, rotations: shifts.Rotations, low: Int, high: Int, _: Int) -> None:
    """Applies one sweep of rotations, with Wilkinson's shift, to the block from row `low` to row `high`."""
    d, e = diagonals.d, diagonals.e

    def rotate(i: Int, c: Number, s: Number, on: Number, off: Number) -> Sequence[Number]:
        rotations.add(i, c, s)
        after, half = d[i + 1], c * off
        h = s * (after - on) + (half + half)
        sh = s * h
        return c, s, on + sh, c * h - off, after - sh

    shift = shifts.nearer_eigenvalue(d[high.max(1) - 1], e[high] * e[high], d[high])
    diagonals.chase(low, high, d[low] - shift, rotate)
    rotations.apply(low, high)
