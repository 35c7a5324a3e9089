"""Jacobi's method: sweeps of plane rotations; each round rotates half of the rows with the other half.

In round r row i rotates with row (r - i) mod n. So in n rounds each row meets all others, and a round is one
gather of rows and a few sums of arrays. A rotation of rows i and p is c x_i + s_i x_p and c x_p + s_p x_i,
for real c and s_p = -conj(s_i); both are computed from the same numbers, so that they match whatever the
rounding.

Source: Golub and Van Loan, "Matrix Computations" (2013), section 8.5; the order: Luk and Park, "On parallel
Jacobi orderings" (1989).
"""

from collections.abc import Callable, Sequence
from typing import Any

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.backends.iree.emitter import Emitter, signless
from tiduc.backends.iree.linear_algebra.matrices import (
    as_element,
    as_scalar,
    loop,
    on_diagonal,
    places,
    quotient,
    squares,
)
from tiduc.dialect.types import rank, shape, with_element, with_shape

SWEEPS = 60
"""The most sweeps, more than any matrix is known to take; about ten are usual."""

Round = Callable[[Emitter, "Pairs", Sequence[Any]], Sequence[Any]]
Measure = Callable[[Emitter, Sequence[Any]], Any]


class Pairs:
    """The partners of n rows in round r."""

    def __init__(self, b: Emitter, r: Any, n: int) -> None:
        numbers = ir.RankedTensorType.get([n], signless(32))
        self.own = b.iota(0, numbers)
        apart = b.subtract(b.broadcast_in_dim(r, [], numbers), self.own)
        below = b.compare(apart, b.zeros_like(apart), "LT")
        self.other = b.select(below, b.add(apart, b.constant(n, apart)), apart)

    def first(self, b: Emitter, like: Any) -> Any:
        """Where rows come before their partner, in the shape of values for each row."""
        return self._compared(b, like, "LT")

    def alone(self, b: Emitter, like: Any) -> Any:
        """Where rows are their own partner."""
        return self._compared(b, like, "EQ")

    def agreed(self, b: Emitter, coupling: Any) -> Any:
        """The coupling of each row to its partner, taken from the first of both: the two may differ by a rounding."""
        return b.select(self.first(b, coupling), coupling, b.conj(self.of(b, coupling)))

    def _compared(self, b: Emitter, like: Any, direction: str) -> Any:
        found = b.compare(self.own, self.other, direction)
        return b.broadcast_in_dim(found, [1], with_element(like.type, signless(1)))

    def of(self, b: Emitter, x: Any) -> Any:
        """The partners' rows, or their values for each row."""
        count, n, *more = shape(x)
        offsets = [0, *range(2, rank(x))]
        numbers = hlo.GatherDimensionNumbers.get(offsets, [1], [], [], [1], 1)
        return b.gather(x, b.reshape(self.other, [n, 1]), numbers, [count, 1, *more], x.type)

    def columns_of(self, b: Emitter, x: Any) -> Any:
        """The partners' columns."""
        count, n, _ = shape(x)
        numbers = hlo.GatherDimensionNumbers.get([0, 1], [2], [], [], [2], 1)
        return b.gather(x, b.reshape(self.other, [n, 1]), numbers, [count, n, 1], x.type)

    def entries_of(self, b: Emitter, x: Any) -> Any:
        """The entry in each row and its partner's column."""
        count, n, _ = shape(x)
        numbers = hlo.GatherDimensionNumbers.get([0], [1, 2], [], [], [1, 2], 1)
        pairs = with_shape(self.own.type, [n, 2])
        own, other = (b.broadcast_in_dim(y, [0], pairs) for y in (self.own, self.other))
        second = b.compare(b.iota(1, pairs), b.constant(1, pairs), "EQ")
        indices = b.select(second, other, own)
        return b.gather(x, indices, numbers, [count, 1, 1], with_shape(x.type, [count, n]))

    def met(self, b: Emitter, x: Any) -> Any:
        """Where a round makes entries zero (in each row, its partner's column), and where the diagonal is."""
        other = b.broadcast_in_dim(self.other, [1], with_element(x.type, signless(32)))
        column = places(b, x, 2)
        return b.or_(on_diagonal(b, x), b.compare(other, column, "EQ"))


def sweeps(
    b: Emitter, n: int, most: float, initial: Sequence[Any], measure: Measure, turn: Round
) -> tuple[Any, ...]:
    """The carries after sweeps until their measure is at most `most` in each batch; then the last measure.

    `turn` gives the carries after a round.
    """
    i32 = as_scalar(b, 0).type

    def goes_on(b: Emitter, sweep: Any, last: Any, *carries: Any) -> Any:
        # A NaN compares as false: it neither continues the sweeps nor ends those of other batches.
        moving = b.convert(b.compare(last, b.constant(most, last), "GT"), signless(32))
        moving = b.reduce(moving, b.constant(0, i32), [0], "stablehlo.maximum")
        return b.and_(
            b.compare(sweep, b.constant(SWEEPS, i32), "LT"), b.compare(moving, b.constant(0, i32), "GT")
        )

    def body(b: Emitter, sweep: Any, last: Any, *carries: Any) -> Sequence[Any]:
        def inner(b: Emitter, r: Any, *carries: Any) -> Sequence[Any]:
            return turn(b, Pairs(b, r, n), carries)

        after = loop(b, n, carries, inner)
        return [b.add(sweep, b.constant(1, sweep)), measure(b, after), *after]

    start = [b.constant(0, i32), measure(b, initial), *initial]
    _, last, *carries = b.while_(start, goes_on, body)
    return (*carries, last)


class Rotation:
    """The rotations that make entries of Hermitian matrices zero: each row's c, s, and change of the diagonal."""

    def __init__(self, b: Emitter, pairs: Pairs, entries: Any, coupling: Any) -> None:
        """`entries` is the diagonal; `coupling` is that of each row to its partner, as `agreed` gives it."""
        size = b.sqrt(squares(b, coupling))
        none = b.or_(pairs.alone(b, size), b.compare(size, b.zeros_like(size), "EQ"))
        one = b.constant(1, size)
        size = b.select(none, one, size)
        ratio = b.divide(b.subtract(pairs.of(b, entries), entries), b.add(size, size))
        zero = b.zeros_like(ratio)
        positive = b.compare(ratio, zero, "GT")
        positive = b.or_(positive, b.and_(b.compare(ratio, zero, "EQ"), pairs.first(b, ratio)))
        length = b.add(b.abs(ratio), b.sqrt(b.add(one, b.multiply(ratio, ratio))))
        tangent = b.divide(b.select(positive, one, b.negate(one)), length)
        tangent = b.select(none, zero, tangent)
        cosine = b.divide(one, b.sqrt(b.add(one, b.multiply(tangent, tangent))))
        sine = b.multiply(tangent, cosine)
        less = b.divide(b.multiply(sine, sine), b.add(one, cosine))
        phase = quotient(b, coupling, size)
        self.pairs = pairs
        self.less = as_element(b, less, coupling)
        self.sine = b.multiply(as_element(b, b.negate(sine), coupling), phase)
        self.change = b.negate(b.multiply(tangent, size))

    def of(self, b: Emitter, x: Any) -> Any:
        """The rows of x rotated, by c - 1 in place of c: small angles, the most frequent ones, round less."""
        less, sine = (b.broadcast_in_dim(v, [0, 1], x.type) for v in (self.less, self.sine))
        return b.add(x, b.subtract(b.multiply(sine, self.pairs.of(b, x)), b.multiply(less, x)))

    def of_columns(self, b: Emitter, x: Any) -> Any:
        """The columns of x rotated by the adjoint."""
        less, sine = (b.broadcast_in_dim(v, [0, 2], x.type) for v in (self.less, b.conj(self.sine)))
        return b.add(x, b.subtract(b.multiply(sine, self.pairs.columns_of(b, x)), b.multiply(less, x)))
