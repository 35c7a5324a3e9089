"""Cholesky factors: a = u^H u, row by row.

    row i of u:  row i of a, minus conj(u_ji) times row j of u for each j < i, four rows j at a time;
                 then divided by the square root of its diagonal entry

Rows are computed in pairs, so that the rows above a pair are read once for both. A lower factor is the adjoint of u,
and is computed from the adjoint of the lower triangle of a.
"""

from tiduc.backends.iree.linear_algebra.program import STRIP, Matrix, MatrixProgram
from tiduc.backends.iree.linear_algebra.run import program
from tiduc.backends.iree.linear_algebra.scalars import Int, Number

_BLOCK = 4
_AT_ONCE = 2  # the number of rows that are computed together


@program
def factors(p: MatrixProgram, a: Matrix, *, lower: bool, keep: bool) -> list[Matrix]:
    """The factor and `info`: 0, or the number (from one) of the first column without a positive diagonal entry.

    Reads only one triangle of a: the lower one if `lower` is set. The other triangle of the result is zero, or that of
    a if `keep` is set.
    """
    n = a.rows
    u, info = p.result(n, n), p.result(1, 1, "integer")
    u.copy(a.adjoint if lower else a)

    def factor(i: Int, j: Int) -> Number:
        return u[j, i].conj

    with p.each(0, n, _BLOCK) as first:
        end = (first + _BLOCK).min(n)
        for rows in p.groups(first, end, _AT_ONCE):
            u.subtract(rows, factor, u, (0, first), (rows[0], n))
        with p.each(first, end) as i:
            u.subtract([i], factor, u, (first, i), (i, n))
            root = u[i, i].re.sqrt
            u[i, i] = root
            with p.each(i + 1, n) as c:
                u[i, c] = u[i, c] / root
    info[0] = _number_without_root(u)
    _write_triangles(a, u, lower, keep)
    return [u, info]


@program
def first_without_root(p: MatrixProgram, factor: Matrix) -> list[Matrix]:
    """Returns `info`, as `factors` does, for a factor that the host has computed."""
    info = p.result(1, 1, "integer")
    info[0] = _number_without_root(factor)
    return [info]


def _number_without_root(u: Matrix) -> Int:
    """Returns 0, or the number (from one) of the first column whose diagonal entry is not positive. NaN is not."""
    p = u.p
    return p.number_of_first(u.rows, lambda i: p.logical_not(u[i, i].re > 0.0))


def _write_triangles(a: Matrix, u: Matrix, lower: bool, keep: bool) -> None:
    """Replaces u by its adjoint if `lower`. Copies the other triangle from a if `keep`, else fills it with zeros."""
    p, n = u.p, u.rows
    width = STRIP if lower else n
    with p.each(0, n, width) as first:
        end = (first + width).min(n)
        with p.each(first, n) as i, p.each(first, end.min(i)) as j:
            if lower:
                u[i, j] = u[j, i].conj
            above, below = (j, i) if lower else (i, j)
            u[above, below] = a[above, below] if keep else 0.0
