"""QR factors a = Q R by Householder reflections, with or without column pivoting, and products with Q.

In the packed factors, R is the upper triangle, and the vectors v of the reflections 1 - tau v v^H are below it. The
entry of v on the diagonal is one and is not stored. Signs and phases are those of LAPACK's geqrf: an entry on the
diagonal of R is real, and its sign is the opposite of the sign of the entry that the reflection replaces.

Source: Golub and Van Loan, "Matrix Computations" (2013), sections 5.2.2 and 5.4.2.
"""

import math

from tiduc.backends.iree.linear_algebra.program import Matrix, MatrixProgram
from tiduc.backends.iree.linear_algebra.reflectors import Reflectors
from tiduc.backends.iree.linear_algebra.run import program
from tiduc.backends.iree.linear_algebra.scalars import Int, Number


@program
def factors(p: MatrixProgram, a: Matrix) -> list[Matrix]:
    """The packed factors of an m by n matrix a, and a row with the number tau of each of min(m, n) reflections."""
    count = min(a.rows, a.columns)
    qr, taus, w = p.result(a.rows, a.columns), p.result(1, count), p.work(1, a.columns)
    qr.copy(a)
    with p.each(0, count) as j:
        _reflect_column(qr, taus, w, j)
    return [qr, taus]


@program
def pivoted(p: MatrixProgram, a: Matrix, wanted: Matrix) -> list[Matrix]:
    """The packed factors; for each of their columns, the index of the column in a, from zero; and the row of tau.

    Columns with a nonzero entry in the row `wanted` come first. Each later step chooses the longest remaining column.
    """
    n, count = a.columns, min(a.rows, a.columns)
    qr, order, taus = p.result(a.rows, n), p.result(1, n, "integer"), p.result(1, count)
    flags, w = p.work(1, n, "integer"), p.work(1, n)
    qr.copy(a)
    flags.copy(wanted)
    with p.each(0, n) as j:
        order[j] = j
    with p.each(0, count) as j:
        at = _next_column(qr, flags, j)
        with p.when(p.logical_not(at.equals(j))):
            for rows in (qr, order, flags):
                rows.transpose.swap_rows(at, j)
        _reflect_column(qr, taus, w, j)
    return [qr, order, taus]


@program
def multiply_by_q(p: MatrixProgram, qr: Matrix, taus: Matrix, c: Matrix, *, adjoint: bool) -> list[Matrix]:
    """Returns Q c, or Q^H c if `adjoint` is set. `qr` has the packed factors, and `taus` the numbers tau."""
    m, n, count = c.rows, c.columns, taus.columns
    x, v, w = p.result(m, n), p.work(m, count), p.work(1, n)
    x.copy(c)
    v.copy(qr)
    reflectors = Reflectors(v.adjoint, taus)
    with p.each(0, count) if adjoint else p.each_reversed(count) as j:
        v[j, j] = 1.0
        reflectors.reflect_columns(x, w, j, (j, m), (0, n), adjoint)
    return [x]


def _reflect_column(x: Matrix, taus: Matrix, w: Matrix, j: Int) -> None:
    """Computes the reflection that makes column j zero below the diagonal. Applies it to the later columns.

    Stores its vector v in column j, and its tau in `taus`. The row w is scratch space.
    """
    reflectors = Reflectors(x.adjoint, taus)
    beta = reflectors.make(j, j, x.rows, j)
    reflectors.reflect_columns(x, w, j, (j, x.rows), (j + 1, x.columns))
    x[j, j] = beta


def _next_column(x: Matrix, wanted: Matrix, j: Int) -> Int:
    """The index, at least j, of the first column with a nonzero entry in `wanted`.

    Without such a column, returns the index, at least j, of the column whose part from row j on is longest. Returns j
    if the length of column j is NaN.
    """
    p = x.p
    top = p.largest(j, x.rows, lambda i: p.largest(j, x.columns, lambda c: x[i, c]))
    unit = p.select(top > 0.0, top, 1.0)

    def length(c: Int) -> Number:
        total = p.sum(j, x.rows, lambda i: (x[i, c] / unit).square)
        return p.select(p.logical_not(wanted[c].equals(0)), math.inf, total)

    return p.place_of_largest(j, x.columns, length)
