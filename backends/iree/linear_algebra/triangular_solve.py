"""Triangular solves: finds x with a x = c for a lower triangular matrix a.

    row i of x:  row i of c, minus a_ij times row j of x for each j < i, four rows j at a time; then divided by a_ii

The inner loop runs along the right-hand sides. If there is a single right-hand side, or if the right-hand sides are
rows of c, they are solved one by one: once an entry of x is known, its multiples are subtracted from the later entries.
"""

from tiduc.backends.iree.linear_algebra.program import Matrix, MatrixProgram
from tiduc.backends.iree.linear_algebra.run import program

_MANY = (
    8  # with this many right-hand sides, it is faster to copy the matrix first and read the copy along rows
)


@program
def solve(
    p: MatrixProgram, a: Matrix, c: Matrix, *, left: bool, lower: bool, unit: bool, transpose: bool
) -> list[Matrix]:
    """Solves op(a) x = c if `left` is set, else x op(a) = c. op(a) is the transpose if `transpose` is set, else a.

    Reads only one triangle of a: the lower one if `lower` is set. Takes ones for the diagonal if `unit` is set.
    """
    result = p.result(c.rows, c.columns)
    result.copy(c)
    x, matrix, upper = result, a.transpose if transpose else a, lower == transpose
    if not left:  # x op(a) = c is equivalent to op(a)^T x^T = c^T
        x, matrix, upper = x.transpose, matrix.transpose, not upper
        if transpose and c.rows >= _MANY:
            columns = p.work(a.columns, a.rows)
            columns.copy(a.transpose)
            matrix = columns.transpose
    if upper:  # reverses the order of the equations, because `by` solves from the first row to the last
        x, matrix = x.flipped(0), matrix.flipped(0, 1)
    by = _by_rows if left and c.columns > 1 else _by_right_hand_sides
    by(matrix, x, unit)
    return [result]


def _by_rows(a: Matrix, x: Matrix, unit: bool) -> None:
    """Solves all right-hand sides row by row."""
    p = x.p
    with p.each(0, a.rows) as i:
        x.subtract([i], lambda i, j: a[i, j], x, (0, i), (0, x.columns))
        if not unit:
            divisor = a[i, i]
            with p.each(0, x.columns) as c:
                x[i, c] = x[i, c] / divisor


def _by_right_hand_sides(a: Matrix, x: Matrix, unit: bool) -> None:
    """Solves for one right-hand side after the other, by subtracting multiples of columns of a."""
    p = x.p
    with p.each(0, x.columns) as c, p.each(0, a.rows) as j:
        if not unit:
            x[j, c] = x[j, c] / a[j, j]
        v = x[j, c]
        with p.each(j + 1, a.rows) as i:
            x[i, c] = x[i, c] - v * a[i, j]
