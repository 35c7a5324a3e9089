"""Cholesky factors: a = u^H u, row by row.

    row i of u:  row i of a, less conj(u_ji) times row j of u for each j < i, four at a time,
                 over the root of its diagonal entry

Two rows are computed together from the rows before their block, so that these are read once for both. A lower
factor is the adjoint of u, and the rows read are the adjoint of the lower triangle of a.
"""

from collections.abc import Sequence
from typing import Any

from tiduc.backends.iree.emitter import Emitter
from tiduc.backends.iree.linear_algebra.matrices import integers
from tiduc.backends.iree.linear_algebra.program import STRIP, Matrix, Program
from tiduc.backends.iree.linear_algebra.run import run
from tiduc.backends.iree.linear_algebra.scalars import Int
from tiduc.dialect.types import shape

_TOGETHER = 4  # rows subtracted at once, so that a row of results is read and written once for them
_AT_ONCE = 2  # rows of results computed at once, so that the rows before are read once for them


def factor(b: Emitter, x: Any, lower: bool, keep: bool) -> list[Any]:
    """Factors of a batch of matrices, and `info` [batch, 1]: the first column (from one) without a positive root, or 0.

    The other triangle, which is not read, is zero, or unchanged if `keep`.
    """

    def body(p: Program, a: Matrix, u: Matrix, info: Matrix) -> None:
        u.copy(a.adjoint if lower else a)
        n = u.rows
        with p.each(0, n, _TOGETHER) as first:
            end = (first + _TOGETHER).min(n)
            for rows in p.groups(first, end, _AT_ONCE):
                with p.each(0, first, _TOGETHER) as j:
                    _subtract_rows(u, rows, [j + more for more in range(_TOGETHER)])
            with p.each(first, end) as i:
                with p.each(first, i) as j:
                    _subtract_rows(u, [i], [j])
                root = u[i, i].re.sqrt
                u[i, i] = root
                with p.each(i + 1, n) as c:
                    u[i, c] = u[i, c] / root
        _find_failure(u, info)
        _write_triangles(a, u, lower, keep)

    return run(b, [x], [x.type, integers(shape(x)[0], 1)], [], body)


def first_without_root(b: Emitter, factors: Any) -> Any:
    """`info` [batch, 1] of factors [batch, n, n]."""
    type_ = integers(shape(factors)[0], 1)
    return run(b, [factors], [type_], [], lambda p, u, info: _find_failure(u, info))[0]


def _find_failure(u: Matrix, info: Matrix) -> None:
    """Writes the first column (from one) whose diagonal entry is not positive, or 0."""
    p, failed = u.p, u.p.counter(0)
    with p.each(0, u.rows) as i:
        none = p.no(u[i, i].re > 0.0)  # a NaN is no root, either
        failed.set_if(p.both(none, failed.value.equals(0)), i + 1)
    info.set_integer(0, failed.value)


def _subtract_rows(u: Matrix, rows: Sequence[Int], others: Sequence[Int]) -> None:
    """Subtracts from `rows`, from the first diagonal entry on, their multiples of `others`."""
    factors = [[u[j, i].conj for j in others] for i in rows]
    with u.p.each(rows[0], u.columns) as c:
        values = [u[i, c] for i in rows]
        for n, j in enumerate(others):
            y = u[j, c]
            values = [x - of_row[n] * y for x, of_row in zip(values, factors, strict=True)]
        for x, i in zip(values, rows, strict=True):
            u[i, c] = x


def _write_triangles(a: Matrix, u: Matrix, lower: bool, keep: bool) -> None:
    """Writes the factor that is wanted, and the other triangle."""
    p, n = u.p, u.rows
    width = STRIP if lower else n
    with p.each(0, n, width) as first:
        end = (first + width).min(n)
        with p.each(first, n) as i, p.each(first, end.min(i)) as j:
            if lower:
                u[i, j] = u[j, i].conj
            above, below = (j, i) if lower else (i, j)
            u[above, below] = a[above, below] if keep else 0.0
