"""Hessenberg forms, and the QR algorithm, which makes them triangular.

Source: Golub and Van Loan, "Matrix Computations" (2013), chapter 7.
"""

from collections.abc import Sequence
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter, signless
from tiduc.backends.iree.linear_algebra.matrices import (
    adjoint,
    as_element,
    as_scalar,
    compared,
    diagonal,
    epsilon,
    everywhere,
    largest,
    loop,
    masked,
    on_diagonal,
    places,
    product,
    quotient,
    sizes,
    spread,
    squares,
    summed,
)
from tiduc.backends.iree.linear_algebra.qr import reflector
from tiduc.dialect.types import shape

STEPS = 30
"""The most steps per eigenvalue, on average; two or three are usual."""


def hessenberg(b: Emitter, x: Any) -> tuple[Any, Any]:
    """h and z with x = z h z^H, column by column; each is reflected onto the entry below the diagonal."""
    count, n, _ = shape(x)
    unit = b.select(on_diagonal(b, x), b.constant(1, x), b.zeros_like(x))
    if n < 3:
        return x, unit

    def body(b: Emitter, j: Any, h: Any, z: Any) -> Sequence[Any]:
        zero, below = b.zeros_like(j), b.add(j, b.constant(1, j))
        column = b.dynamic_slice(h, (zero, zero, j), [count, n, 1])
        place = places(b, column, 1)
        alpha = b.dynamic_slice(column, (zero, below, zero), [count, 1, 1])
        v, tau, _ = reflector(b, masked(b, compared(b, place, below, "GT"), column), alpha)
        v = b.select(compared(b, place, below, "EQ"), b.constant(1, v), v)
        # From the left by 1 - conj(tau) v v^H, and from the right by its adjoint.
        rows = product(b, adjoint(b, v), h)
        rows = b.multiply(everywhere(b, b.conj(tau), rows), rows)
        h = b.subtract(h, b.multiply(everywhere(b, v, h), everywhere(b, rows, h)))
        return [_from_right(b, y, v, tau) for y in (h, z)]

    h, z = loop(b, n - 2, [x, unit], body)
    return _cleared(b, h), z


def _from_right(b: Emitter, x: Any, v: Any, tau: Any) -> Any:
    along = product(b, x, v)
    along = b.multiply(everywhere(b, tau, along), along)
    return b.subtract(x, b.multiply(everywhere(b, along, x), everywhere(b, adjoint(b, v), x)))


def triangular(b: Emitter, h: Any, z: Any) -> tuple[Any, Any, Any]:
    """t and z with z t z^H unchanged; for each matrix, the last row that is not finished, or 0."""
    count, n, _ = shape(h)
    zeros = b.zero(ir.RankedTensorType.get([count], signless(32)))
    if n < 2:
        return h, z, zeros

    def goes_on(b: Emitter, step: Any, high: Any, *_: Any) -> Any:
        most = b.reduce(high, as_scalar(b, 0), [0], "stablehlo.maximum")
        within = b.compare(step, as_scalar(b, STEPS * n), "LT")
        return b.and_(within, b.compare(most, as_scalar(b, 0), "GT"))

    def body(b: Emitter, step: Any, high: Any, since: Any, t: Any, z: Any) -> Sequence[Any]:
        low = _first_row(b, t, high)
        t, z = _chased(b, t, z, low, high, _shift(b, t, high, since))
        t, after = _split(b, _cleared(b, t))
        same = b.compare(after, high, "EQ")
        since = b.select(same, b.add(since, b.constant(1, since)), b.zeros_like(since))
        return [b.add(step, b.constant(1, step)), after, since, t, z]

    h, high = _split(b, h)
    _, high, _, t, z = b.while_([as_scalar(b, 0), high, zeros, h, z], goes_on, body)
    return b.select(b.compare(places(b, t, 1), places(b, t, 2), "LE"), t, b.zeros_like(t)), z, high


def _split(b: Emitter, t: Any) -> tuple[Any, Any]:
    """t with negligible subdiagonal entries set to zero, and the last row with another one.

    An entry is negligible if it is at most epsilon times the sum of its neighbours on the diagonal.
    """
    of_diagonal = _size(b, diagonal(b, t))
    beside = b.add(spread(b, of_diagonal, [0, 1], t), spread(b, of_diagonal, [0, 2], t))
    whole = spread(b, largest(b, sizes(b, t), [1, 2]), [0], beside)
    beside = b.select(b.compare(beside, b.zeros_like(beside), "EQ"), whole, beside)
    small = b.compare(_size(b, t), b.multiply(beside, b.constant(epsilon(t), beside)), "LE")
    below = _is_below(b, t)
    last = masked(b, b.and_(below, b.not_(small)), places(b, t, 1))
    t = b.select(b.and_(below, small), b.zeros_like(t), t)
    return t, b.reduce(last, as_scalar(b, 0), [1, 2], "stablehlo.maximum")


def _first_row(b: Emitter, t: Any, high: Any) -> Any:
    """The last row up to `high` that has a zero on the subdiagonal."""
    entries = b.reduce_sum(masked(b, _is_below(b, t), _size(b, t)), [2])
    place = places(b, entries, 1)
    none = b.compare(entries, b.zeros_like(entries), "EQ")
    none = b.and_(none, b.compare(place, spread(b, high, [0], place), "LE"))
    return b.reduce(masked(b, none, place), as_scalar(b, 0), [1], "stablehlo.maximum")


def _shift(b: Emitter, t: Any, high: Any, since: Any) -> Any:
    """The eigenvalue of the last two rows nearer to the last entry; each tenth time, an exceptional shift."""
    before = b.subtract(high, b.constant(1, high))
    (upper, above), (beside, last) = (
        [_entry(b, t, row, column) for column in (before, high)] for row in (before, high)
    )
    half = b.multiply(b.constant(0.5, last), b.subtract(upper, last))
    both = b.multiply(above, beside)
    root = _root(b, b.add(b.multiply(half, half), both))
    more, less = b.add(half, root), b.subtract(half, root)
    larger = b.compare(squares(b, more), squares(b, less), "GE")
    divisor = b.select(larger, more, less)
    none = b.compare(divisor, b.zeros_like(divisor), "EQ")
    shift = b.subtract(last, quotient(b, both, b.select(none, b.constant(1, divisor), divisor)))
    ten = b.constant(10, since)
    often = b.compare(b.remainder(since, ten), b.constant(9, since), "EQ")
    size = _size(b, beside)
    other = b.add(last, as_element(b, b.multiply(b.constant(0.75, size), size), last))
    return b.select(often, other, shift)


def _chased(b: Emitter, t: Any, z: Any, low: Any, high: Any, shift: Any) -> tuple[Any, Any]:
    """One QR step: rotates adjacent rows and columns, from row `low` to row `high` of each matrix."""
    count, n, _ = shape(t)

    def body(b: Emitter, k: Any, t: Any, z: Any) -> Sequence[Any]:
        zero = b.zeros_like(k)
        before = b.maximum(b.subtract(k, b.constant(1, k)), zero)
        here = b.dynamic_slice(t, (zero, k, k), [count, 2, 1])
        first = b.compare(places(b, here, 1), b.constant(0, places(b, here, 1)), "EQ")
        here = b.select(first, b.subtract(here, spread(b, shift, [0], here)), here)
        there = b.dynamic_slice(t, (zero, k, before), [count, 2, 1])
        number = everywhere(b, k, low)
        starts = b.compare(number, low, "EQ")
        pair = b.select(spread(b, starts, [0], here), here, there)
        turns = b.and_(b.compare(number, low, "GE"), b.compare(number, high, "LT"))
        rotation = _rotation(b, pair, turns)
        rows = b.dynamic_slice(t, (zero, k, zero), [count, 2, n])
        t = b.dynamic_update_slice(t, product(b, rotation, rows), (zero, k, zero))
        back = adjoint(b, rotation)
        t, z = (
            b.dynamic_update_slice(
                y,
                product(b, b.dynamic_slice(y, (zero, zero, k), [count, n, 2]), back),
                (zero, zero, k),
            )
            for y in (t, z)
        )
        return [t, z]

    t, z = loop(b, n - 1, [t, z], body)
    return t, z


def _rotation(b: Emitter, pair: Any, turns: Any) -> Any:
    """The unitary matrices [[conj(x), conj(y)], [-y, x]] / r, which take pairs (x, y) to (r, 0).

    Gives the unit matrix where `turns` is false.
    """
    count = shape(pair)[0]
    top = largest(b, sizes(b, pair), [1, 2])
    none = b.or_(b.not_(turns), b.compare(top, b.zeros_like(top), "EQ"))
    top = b.select(none, b.constant(1, top), top)
    pair = quotient(b, pair, spread(b, top, [0], pair))
    length = b.sqrt(b.reduce_sum(squares(b, pair), [1, 2]))
    length = b.select(none, b.constant(1, length), length)
    pair = quotient(b, pair, spread(b, length, [0], pair))
    matrix = ir.RankedTensorType.get([count, 2, 2], pair.type.element_type)
    x, y = (
        b.broadcast_in_dim(b.slice(pair, [0, i, 0], [count, i + 1, 1], [1] * 3), [0, 1, 2], matrix)
        for i in (0, 1)
    )
    row = places(b, x, 1)
    upper = b.compare(row, b.zeros_like(row), "EQ")
    same = on_diagonal(b, x)
    turned = b.select(same, b.select(upper, b.conj(x), x), b.select(upper, b.conj(y), b.negate(y)))
    unit = b.select(same, b.constant(1, x), b.zeros_like(x))
    return b.select(spread(b, none, [0], x), unit, turned)


def _root(b: Emitter, x: Any) -> Any:
    """A square root of complex numbers of moderate size."""
    re, im = b.real(x), b.imag(x)
    half = b.constant(0.5, re)
    long = b.sqrt(b.multiply(half, b.add(_size(b, x), b.abs(re))))
    none = b.compare(long, b.zeros_like(long), "EQ")
    short = b.divide(b.multiply(half, im), b.select(none, b.constant(1, long), long))
    right = b.compare(re, b.zeros_like(re), "GE")
    down = b.compare(im, b.zeros_like(im), "LT")
    of_left = b.complex(b.abs(short), b.select(down, b.negate(long), long))
    return b.select(right, b.complex(long, short), of_left)


def _size(b: Emitter, x: Any) -> Any:
    """|x|, computed from x over its larger part."""
    top = sizes(b, x)
    safe = b.select(b.compare(top, b.zeros_like(top), "EQ"), b.constant(1, top), top)
    return b.multiply(top, b.sqrt(squares(b, quotient(b, x, safe))))


def _entry(b: Emitter, t: Any, row: Any, column: Any) -> Any:
    """The entry at a row and a column, given for each matrix."""
    rows, columns = places(b, t, 1), places(b, t, 2)
    at = b.and_(
        b.compare(rows, spread(b, row, [0], rows), "EQ"),
        b.compare(columns, spread(b, column, [0], columns), "EQ"),
    )
    return summed(b, masked(b, at, t), [1, 2])


def _is_below(b: Emitter, t: Any) -> Any:
    """Whether each element is on the subdiagonal."""
    column = places(b, t, 2)
    return b.compare(places(b, t, 1), b.add(column, b.constant(1, column)), "EQ")


def _cleared(b: Emitter, t: Any) -> Any:
    """t with zeros below the subdiagonal."""
    column = places(b, t, 2)
    far = b.compare(places(b, t, 1), b.add(column, b.constant(1, column)), "GT")
    return b.select(far, b.zeros_like(t), t)
