"""P a = L U with partial pivoting, for the calls of LAPACK, cuSOLVER and TPUs.

One matrix has U, and L without its unit diagonal.
"""

from collections.abc import Sequence
from typing import Any

from tiduc.backends.iree.calls import legalize_call
from tiduc.backends.iree.emitter import Emitter
from tiduc.backends.iree.linear_algebra.elimination import eliminated
from tiduc.backends.iree.linear_algebra.matrices import (
    BLOCK,
    as_scalar,
    batched,
    blocks,
    checked,
    compared,
    diagonal,
    everywhere,
    failed_at,
    largest,
    loop,
    masked,
    places,
    product,
    quotient,
    resized,
    restored,
    sizes,
    smallest,
    spread,
    summed,
    swapped_places,
)
from tiduc.backends.iree.linear_algebra.triangular_solve import solved
from tiduc.dialect.lapack import targets
from tiduc.dialect.types import is_empty, shape, with_shape
from tiduc.passes.rules.getrf import exchanged, rows_taken


@legalize_call(*targets("getrf"))
def getrf(b: Emitter, op: Any) -> Sequence[Any]:
    """The factors, column by column; pivots, counted from one; `info`, the first pivot that is zero."""
    (a,) = checked(op).operands
    if is_empty(a):
        return [a, *[b.zero(y.type) for y in list(op.results)[1:]]]
    x = batched(b, a)
    if b.cpu:
        lu, pivots, info = eliminated(b, x)
        info = restored(b, info, op.results[2].type)
    else:
        lu, pivots = _factors(b, x)
        k = shape(pivots)[1]
        entries = diagonal(b, resized(b, lu, k, k))
        info = failed_at(b, b.compare(entries, b.zeros_like(entries), "EQ"), op.results[2].type)
    pivots = b.add(pivots, b.constant(1, pivots))
    return [restored(b, lu, a.type), restored(b, pivots, op.results[1].type), info]


@legalize_call("LuDecomposition")
def lu_decomposition(b: Emitter, op: Any) -> Sequence[Any]:
    """The factors, column by column; pivots, counted from zero; and the permutation of rows that they make."""
    (a,) = checked(op).operands
    lu, pivots, permutation = op.results
    if is_empty(a):
        return [a, b.zero(pivots.type), b.iota(len(shape(permutation)) - 1, permutation.type)]
    factors, exchanges = _factors(b, batched(b, a))
    exchanges = restored(b, exchanges, pivots.type)
    return [restored(b, factors, a.type), exchanges, exchanged(b, exchanges, shape(a)[-2])]


@legalize_call(*targets("pivots_to_permutation"))
def pivots_to_permutation(b: Emitter, op: Any) -> Sequence[Any]:
    """The permutation of rows that the pivots make by exchanges, one after the other."""
    (pivots,) = checked(op).operands
    type_ = op.results[0].type
    if is_empty(pivots) or is_empty(op.results[0]):
        return [b.iota(len(type_.shape) - 1, type_)]
    return [exchanged(b, pivots, type_.shape[-1])]


def _factors(b: Emitter, x: Any) -> tuple[Any, Any]:
    """Both factors in one matrix, and pivots counted from zero."""
    batch, m, n = shape(x)
    k = min(m, n)
    if b.cpu:
        return eliminated(b, x)[:2]
    count = blocks(k)
    if count == 1:
        return _columns(b, x, as_scalar(b, 0), k)[:2]
    size = count * BLOCK
    rows, columns = max(m, size), max(n, size)
    lu, pivots = _by_blocks(b, resized(b, x, rows, columns), count)
    return resized(b, lu, m, n), b.slice(pivots, [0, 0], [batch, k], [1, 1])


def _by_blocks(b: Emitter, x: Any, count: int) -> tuple[Any, ...]:
    """Factorizes blocks of columns; after each, exchanges rows, solves for U, and subtracts a product below.

    Padding rows and columns are zero: their pivots are zero, and exchange nothing.
    """
    batch, m, n = shape(x)

    def body(b: Emitter, k: Any, lu: Any, pivots: Any) -> Sequence[Any]:
        zero, at = b.zeros_like(k), b.multiply(k, b.constant(BLOCK, k))
        end = b.add(at, b.constant(BLOCK, k))
        panel = b.dynamic_slice(lu, (zero, zero, at), [batch, m, BLOCK])
        panel, exchanges, order = _columns(b, panel, at, BLOCK)
        moved = b.dynamic_update_slice(rows_taken(b, lu, order), panel, (zero, zero, at))
        corner = b.dynamic_slice(panel, (zero, at, zero), [batch, BLOCK, BLOCK])
        rows = b.dynamic_slice(moved, (zero, at, zero), [batch, BLOCK, n])
        beyond = compared(b, places(b, rows, 2), end, "GE")
        rows = b.select(beyond, solved(b, corner, rows, lower=True, unit=True), rows)
        below = masked(b, compared(b, places(b, panel, 1), end, "GE"), panel)
        less = product(b, below, masked(b, beyond, rows))
        moved = b.dynamic_update_slice(b.subtract(moved, less), rows, (zero, at, zero))
        return [moved, b.dynamic_update_slice(pivots, exchanges, (zero, at))]

    pivots = b.zero(with_shape(places(b, x, 1).type, [batch, count * BLOCK]))
    return loop(b, count, [x, pivots], body)


def _columns(b: Emitter, x: Any, first: Any, count: int) -> tuple[Any, ...]:
    """Eliminates the first `count` columns below their diagonal entries, the first of which is in row `first`.

    Also gives the pivots, and the order to which they bring the rows.
    """
    batch, m, n = shape(x)
    row, column = places(b, x, 1), places(b, x, 2)
    place = b.iota(1, with_shape(row.type, [batch, m]))

    def body(b: Emitter, i: Any, lu: Any, pivots: Any, order: Any) -> Sequence[Any]:
        zero, j = b.zeros_like(i), b.add(first, i)
        here = b.reshape(b.dynamic_slice(lu, (zero, zero, i), [batch, m, 1]), [batch, m])
        p = _pivot(b, here, place, j)
        chosen, current = compared(b, row, b.reshape(p, [batch, 1, 1]), "EQ"), compared(b, row, j, "EQ")
        of_p = summed(b, masked(b, chosen, lu), [1])
        of_j = b.dynamic_slice(lu, (zero, j, zero), [batch, 1, n])
        swapped = b.select(
            chosen, everywhere(b, of_j, lu), b.select(current, spread(b, of_p, [0, 2], lu), lu)
        )
        pivot = b.dynamic_slice(of_p, (zero, i), [batch, 1])
        at_j = b.reshape(b.dynamic_slice(of_j, (zero, zero, i), [batch, 1, 1]), [batch, 1])
        low = b.select(compared(b, place, p, "EQ"), everywhere(b, at_j, here), here)
        none = b.compare(pivot, b.zeros_like(pivot), "EQ")
        low = quotient(b, low, everywhere(b, b.select(none, b.constant(1, pivot), pivot), low))
        low = spread(b, low, [0, 1], lu)
        rest = b.subtract(swapped, b.multiply(low, spread(b, of_p, [0, 2], lu)))
        after, same = compared(b, column, i, "GT"), compared(b, column, i, "EQ")
        eliminated = b.select(after, rest, b.select(same, low, swapped))
        order = swapped_places(b, order, p, j)
        lu = b.select(compared(b, row, j, "GT"), eliminated, swapped)
        return [lu, b.dynamic_update_slice(pivots, p, (zero, i)), order]

    pivots = b.zero(with_shape(row.type, [batch, count]))
    return loop(b, count, [x, pivots, place], body)


def _pivot(b: Emitter, column: Any, place: Any, j: Any) -> Any:
    """The index of the first of the largest elements from j on; j itself if there is a NaN."""
    size = masked(b, compared(b, place, j, "GE"), sizes(b, column, both=True))
    batch, m = shape(place)
    most = everywhere(b, b.reshape(largest(b, size, [1]), [batch, 1]), size)
    candidates = b.and_(b.compare(size, most, "EQ"), compared(b, place, j, "GE"))
    p = smallest(b, b.select(candidates, place, b.constant(m, place)), [1], m)
    return b.reshape(b.select(b.compare(p, b.constant(m, p), "EQ"), everywhere(b, j, p), p), [batch, 1])
