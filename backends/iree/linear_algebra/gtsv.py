"""Tridiagonal solves: elimination with partial pivoting, then back substitution.

Equation i is dl_i x_(i-1) + d_i x_i + du_i x_(i+1) = y_i. The first entry of dl and the last entry of du are not read.
Step i compares row i, from which earlier steps have eliminated dl_i, with row i + 1. The row with the larger entry in
column i becomes row i of U.
"""

import functools
from collections.abc import Sequence

from tiduc.backends.iree.linear_algebra.program import Matrix, MatrixProgram
from tiduc.backends.iree.linear_algebra.run import program
from tiduc.backends.iree.linear_algebra.scalars import Number


@program
def solve(p: MatrixProgram, dl: Matrix, d: Matrix, du: Matrix, y: Matrix, *, perturb: bool) -> list[Matrix]:
    """The second superdiagonal, the diagonal and the first superdiagonal of U; x; and `info`, as from LAPACK's gtsv.

    `info` is the number, counted from one, of the first zero on the main diagonal, or 0. With `perturb`, pivots smaller
    than epsilon times the largest entry of U are moved away from zero by this product, because inverse iteration solves
    with almost singular matrices.
    """
    n, width = y.rows, y.columns
    main, first, second = of_u = [p.result(1, n) for _ in range(3)]
    x, info, z = p.result(n, width), p.result(1, 1, "integer"), p.work(n + 2, width)
    with p.each(n, n + 2) as i, p.each(0, width) as c:
        z[i, c] = 0.0
    z.copy(y)
    _eliminate([dl, d, du], of_u, z)
    info[0] = p.number_of_first(n, lambda i: main[i].is_zero)
    if perturb:
        _perturb(of_u)
    with p.each_reversed(n) as i, p.each(0, width) as c:
        z[i, c] = (z[i, c] - (first[i] * z[i + 1, c] + second[i] * z[i + 2, c])) / main[i]
    x.copy(z)
    return [second, main, first, x, info]


def _eliminate(given: Sequence[Matrix], of_u: Sequence[Matrix], z: Matrix) -> None:
    """Computes the diagonals of U, and applies the elimination to the right-hand sides z."""
    p, n, (dl, d, du), (main_row, first_row, second_row) = z.p, z.rows - 2, given, of_u
    main, first = p.variable(d[0]), p.variable(du[0] if n > 1 else z.zero)
    with p.each(0, n - 1) as i:
        after = i + 1
        low, own, above = dl[after], d[after], p.select(after.equals(n - 1), 0.0, du[after])
        swap = low.size > main.value.size
        pivot, other = p.select(swap, low, main.value), p.select(swap, main.value, low)
        factor = other / p.select(pivot.is_zero, 1.0, pivot)
        beside_pivot, below_pivot = p.select(swap, own, first.value), p.select(swap, first.value, own)
        main_row[i], first_row[i], second_row[i] = pivot, beside_pivot, p.select(swap, above, 0.0)
        with p.when(swap):
            z.swap_rows(i, after)
        z.subtract_row(after, factor, z, i, (0, z.columns))
        main.set(below_pivot - factor * beside_pivot)
        first.set(p.select(swap, 0.0, above) - factor * p.select(swap, above, 0.0))
    main_row[n - 1], first_row[n - 1], second_row[n - 1] = main.value, 0.0, 0.0


def _perturb(of_u: Sequence[Matrix]) -> None:
    """If a pivot of U is smaller than epsilon times the largest entry of U, moves it away from zero by this product."""
    main, p = of_u[0], of_u[0].p
    parts = (p.largest(0, x.columns, x.__getitem__) for x in of_u)
    least = p.epsilon * functools.reduce(Number.max, parts)
    with p.each(0, main.columns) as i:
        own = main[i]
        by = p.select(own.re >= 0.0, least, -least)
        small = least > own.largest_part
        main[i] = p.select(small, own + by, own)
