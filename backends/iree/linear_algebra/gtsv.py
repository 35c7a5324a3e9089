"""Tridiagonal solves: elimination with partial pivoting, then back substitution.

Row i reads dl_i x_(i-1) + d_i x_i + du_i x_(i+1) = y_i; the first entry of dl and the last of du are not
read. Row i, as changed so far, is compared with row i + 1; the one with the larger first entry is row i of U.
"""

from typing import Any

from tiduc.backends.iree.emitter import Emitter
from tiduc.backends.iree.linear_algebra.matrices import integers
from tiduc.backends.iree.linear_algebra.program import Matrix, Program
from tiduc.backends.iree.linear_algebra.run import Work, run
from tiduc.dialect.types import is_complex, shape


def solve(b: Emitter, diagonals: list[Any], y: Any, perturb: bool = False) -> list[Any]:
    """The main, first and second diagonals of U, x, and `info`, from the batches dl, d and du of rows.

    `info` is the first zero on the main diagonal, counted from one, or 0. If `perturb`, pivots below epsilon times
    the largest entry of U are moved away from zero by that much, as inverse iteration needs it.
    """
    batch, n, width = shape(y)

    def body(p: Program, *matrices: Matrix) -> None:
        dl, d, du, y, *of_u, x, info, z = matrices
        with p.each(n, n + 2) as i, p.each(0, width) as c:
            z[i, c] = 0.0
        z.copy(y)
        _eliminate([dl, d, du], of_u, z)
        failed = p.counter(0)
        with p.each(0, n) as s:
            i = n - 1 - s
            failed.set_if(of_u[0][i].is_zero, i + 1)
        info.set_integer(0, failed.value)
        if perturb:
            _perturb(of_u)
        main, first, second = of_u
        with p.each(0, n) as s:
            i = n - 1 - s
            with p.each(0, width) as c:
                z[i, c] = (z[i, c] - (first[i] * z[i + 1, c] + second[i] * z[i + 2, c])) / main[i]
        x.copy(z)

    row = diagonals[0].type
    types = [row, row, row, y.type, integers(batch, 1)]
    return run(b, [*diagonals, y], types, [Work(n + 2, width, is_complex(y))], body)


def _eliminate(given: list[Matrix], of_u: list[Matrix], z: Matrix) -> None:
    """Computes the diagonals of U, and the right-hand sides that go with it."""
    p, n, (dl, d, du) = z.p, z.rows - 2, given
    main, first = p.variable(d[0]), p.variable(du[0] if n > 1 else z.zero)

    def write(i: Any, *values: Any) -> None:
        for x, value in zip(of_u, values, strict=True):
            x[i] = value

    with p.each(0, n - 1) as i:
        after = i + 1
        low, own, above = dl[after], d[after], p.either(after.equals(n - 1), 0.0, du[after])
        swap = low.size > main.value.size
        pivot, other = p.either(swap, low, main.value), p.either(swap, main.value, low)
        factor = other / p.either(pivot.is_zero, 1.0, pivot)
        beside_pivot, below_pivot = p.either(swap, own, first.value), p.either(swap, first.value, own)
        write(i, pivot, beside_pivot, p.either(swap, above, 0.0))
        with p.when(swap):
            z.swap_rows(i, after)
        z.subtract(after, [(factor, z, i)], 0, z.columns)
        main.set(below_pivot - factor * beside_pivot)
        first.set(p.either(swap, 0.0, above) - factor * p.either(swap, above, 0.0))
    write(n - 1, main.value, 0.0, 0.0)


def _perturb(of_u: list[Matrix]) -> None:
    """Moves small pivots away from zero."""
    main, p = of_u[0], of_u[0].p
    top = p.variable(0.0)
    for x in of_u:
        with p.each(0, x.columns) as i:
            top.set(top.value.max(x[i]))
    least = p.epsilon * top.value
    with p.each(0, main.columns) as i:
        own = main[i]
        by = p.either(own.re >= 0.0, least, -least)
        small = least > p.number(0.0).max(own)
        main[i] = p.either(small, own + by, own)
