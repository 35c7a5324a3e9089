"""Tridiagonal solves, for the calls of LAPACK and cuSPARSE: diagonals dl, d and du of one length, and y.

Row i reads dl_i x_(i-1) + d_i x_i + du_i x_(i+1) = y_i; the first entry of dl and the last of du are not
read.
"""

from collections.abc import Sequence
from typing import Any

from tiduc.backends.iree.calls import legalize_call
from tiduc.backends.iree.emitter import Emitter
from tiduc.backends.iree.linear_algebra.matrices import (
    as_element,
    as_scalar,
    batched,
    checked,
    epsilon,
    everywhere,
    failed_at,
    largest,
    loop,
    quotient,
    restored,
    sizes,
    spread,
    vectors,
)
from tiduc.dialect.lapack import targets
from tiduc.dialect.types import is_empty, shape, with_shape


@legalize_call(*targets("gtsv", "gtsv2"))
def gtsv(b: Emitter, op: Any) -> Sequence[Any]:
    """Elimination with partial pivoting, then back substitution; also gives the diagonals of U, as LAPACK does."""
    dl, d, du, y = checked(op).operands
    alone = len(op.results) == 1
    if is_empty(y):
        return [y] if alone else [dl, d, du, y, b.zero(op.results[4].type)]
    main, first, second, right = _eliminated(b, vectors(b, dl), vectors(b, d), vectors(b, du), batched(b, y))
    x = restored(b, _substituted(b, main, first, second, right), y.type)
    if alone:
        return [x]
    info = failed_at(b, b.compare(main, b.zeros_like(main), "EQ"), op.results[4].type)
    left = [restored(b, u, d.type) for u in (second, main, first)]  # as LAPACK leaves them
    return [*left, x, info]


@legalize_call(*targets("tridiagonal_solve_perturbed"))
def perturbed(b: Emitter, op: Any) -> Sequence[Any]:
    """Solves with a matrix near a singular one, as inverse iteration needs it.

    Pivots below epsilon times the largest entry of U are moved away from zero by that much.
    """
    dl, d, du, y = checked(op).operands
    if is_empty(y):
        return [y]
    main, first, second, right = _eliminated(b, vectors(b, dl), vectors(b, d), vectors(b, du), batched(b, y))
    batch = shape(main)[0]
    most = b.maximum(b.maximum(sizes(b, main), sizes(b, first)), sizes(b, second))
    least = b.reshape(largest(b, most, [1]), [batch, 1])
    least = everywhere(b, b.multiply(least, b.constant(epsilon(main), least)), most)
    small = b.compare(sizes(b, main), least, "LT")
    down = b.compare(b.real(main), b.zeros_like(least), "LT")
    moved = b.add(main, as_element(b, b.select(down, b.negate(least), least), main))
    x = _substituted(b, b.select(small, moved, main), first, second, right)
    return [restored(b, x, y.type)]


def _eliminated(b: Emitter, dl: Any, d: Any, du: Any, y: Any) -> tuple[Any, ...]:
    """The diagonals of U, main, first and second above, and the right-hand sides after elimination.

    Row i, as changed so far, is compared with row i + 1; the one with the larger first entry is row i of U.
    """
    batch, n, width = shape(y)
    du = _moved(b, _moved(b, du, 1), -1)
    lower, after, above, right = (_moved(b, x, -1) for x in (dl, d, du, y))

    def body(b: Emitter, i: Any, *carries: Any) -> Sequence[Any]:
        row, of_row, *made = carries
        zero = b.zeros_like(i)
        low, own, over = (b.dynamic_slice(x, (zero, i), [batch, 1]) for x in (lower, after, above))
        of_next = b.dynamic_slice(right, (zero, i, zero), [batch, 1, width])
        main, first = (b.slice(row, [0, k], [batch, k + 1], [1, 1]) for k in (0, 1))
        swap = b.compare(sizes(b, low, both=True), sizes(b, main, both=True), "GT")
        pivot, other = b.select(swap, low, main), b.select(swap, main, low)
        none = b.compare(pivot, b.zeros_like(pivot), "EQ")
        factor = quotient(b, other, b.select(none, b.constant(1, pivot), pivot))
        stays = pivot, b.select(swap, own, first), b.select(swap, over, b.zeros_like(over))
        goes = b.select(swap, first, own), b.select(swap, b.zeros_like(over), over)
        left = [b.subtract(u, b.multiply(factor, v)) for u, v in zip(goes, stays[1:], strict=True)]
        wide = spread(b, swap, [0, 1], of_row)
        kept, gone = b.select(wide, of_next, of_row), b.select(wide, of_row, of_next)
        of_row = b.subtract(gone, b.multiply(spread(b, factor, [0, 1], kept), kept))
        *diagonals, ys = made
        diagonals = [b.dynamic_update_slice(u, v, (zero, i)) for u, v in zip(diagonals, stays, strict=True)]
        ys = b.dynamic_update_slice(ys, kept, (zero, i, zero))
        return [b.concatenate(left, 1), of_row, *diagonals, ys]

    row = b.concatenate([b.slice(x, [0, 0], [batch, 1], [1, 1]) for x in (d, du)], 1)
    of_row = b.slice(y, [0, 0, 0], [batch, 1, width], [1, 1, 1])
    return loop(b, n, [row, of_row, *[b.zeros_like(d)] * 3, b.zeros_like(y)], body)[2:]


def _substituted(b: Emitter, main: Any, first: Any, second: Any, y: Any) -> Any:
    """x with U x = y, from the last row to the first."""
    batch, n, width = shape(y)

    def body(b: Emitter, i: Any, *carries: Any) -> Sequence[Any]:
        x1, x2, x = carries
        zero, j = b.zeros_like(i), b.subtract(as_scalar(b, n - 1), i)
        entries = (b.dynamic_slice(u, (zero, j), [batch, 1]) for u in (main, first, second))
        u0, u1, u2 = (spread(b, u, [0, 1], x1) for u in entries)
        rest = b.dynamic_slice(y, (zero, j, zero), [batch, 1, width])
        rest = b.subtract(rest, b.add(b.multiply(u1, x1), b.multiply(u2, x2)))
        x0 = quotient(b, rest, u0)
        return [x0, x1, b.dynamic_update_slice(x, x0, (zero, j, zero))]

    none = b.zero(with_shape(y.type, [batch, 1, width]))
    return loop(b, n, [none, none, b.zeros_like(y)], body)[2]


def _moved(b: Emitter, x: Any, by: int) -> Any:
    """x shifted by one place along its rows, with zeros shifted in."""
    count, n, *more = shape(x)
    zero = b.zero(with_shape(x.type, [count, 1, *more]))
    low = 1 if by < 0 else 0
    rest = b.slice(x, [0, low] + [0] * len(more), [count, n - 1 + low, *more], [1] * len(shape(x)))
    return b.concatenate([rest, zero] if low else [zero, rest], 1)
