"""LU factors: P a = L U with partial pivoting, in blocks of columns, as in LAPACK's getrf.

    for each column of a block:           find its pivot, exchange rows, compute L, eliminate in the block
    for the rows of U beside the block:   solve with the block's L
    for the rest of the matrix:           subtract the product of these parts of L and U, four rows of U at a time

The pivot of a column is the largest entry on and below the diagonal, and the first one if several are equal. Complex
entries compare by |re| + |im|. A NaN on the diagonal is the pivot; other NaNs are never chosen.
"""

from tiduc.backends.iree.linear_algebra.program import Matrix, MatrixProgram
from tiduc.backends.iree.linear_algebra.run import program
from tiduc.backends.iree.linear_algebra.scalars import Int

_BLOCK = 32


@program
def factors(p: MatrixProgram, a: Matrix) -> list[Matrix]:
    """Both factors in one matrix; the pivots, counted from zero; and `info`.

    The diagonal of the matrix is that of U, because the diagonal of L is all ones. `info` is the number, counted from
    one, of the first column whose pivot is zero, or 0.
    """
    m, n, count = a.rows, a.columns, min(a.rows, a.columns)
    lu, pivots, info = p.result(m, n), p.result(1, count, "integer"), p.result(1, 1, "integer")
    lu.copy(a)
    with p.each(0, count, _BLOCK) as first:
        end = (first + _BLOCK).min(count)
        with p.each(first, end) as j:
            _eliminate(lu, pivots, j, end)
        with p.each(first, end) as i:
            lu.subtract([i], lambda i, j: lu[i, j], lu, (first, i), (end, n))
        with p.each(end, m) as i:
            lu.subtract([i], lambda i, j: lu[i, j], lu, (first, end), (end, n))
    info[0] = p.number_of_first(count, lambda i: lu[i, i].is_zero)
    return [lu, pivots, info]


def _eliminate(lu: Matrix, pivots: Matrix, j: Int, end: Int) -> None:
    """Finds the pivot of column j, exchanges rows, computes column j of L, and eliminates in columns below `end`."""
    p = lu.p
    at = p.place_of_largest(j, lu.rows, lambda i: lu[i, j].size)
    pivots[j] = at
    with p.when(p.logical_not(at.equals(j))):
        lu.swap_rows(at, j)
    pivot = p.select(lu[j, j].is_zero, 1.0, lu[j, j])
    with p.each(j + 1, lu.rows) as i:
        factor = lu[i, j] / pivot
        lu[i, j] = factor
        lu.subtract_row(i, factor, lu, j, (j + 1, end))
