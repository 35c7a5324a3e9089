"""Parts of the QR algorithms with shifts: convergence, blocks that are not diagonal yet, shifts, and rotations.

An entry beside the diagonal is small if it is at most epsilon times the sum of its neighbours on the
diagonal, or negligible.

Source: Golub and Van Loan, "Matrix Computations" (2013), sections 5.1.8 and 8.3.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tiduc.backends.iree.linear_algebra.program import Kind, Matrix, Program
from tiduc.backends.iree.linear_algebra.scalars import Int, Number

STEPS = 30
"""The most sweeps per value, on average, as in LAPACK; about two are usual."""

_TOGETHER = 2  # rotations applied at once, so that a row is read and written once for them


def qr_algorithm(
    p: Program, n: int, couples: Callable[[Int], Any], sweep: Callable[[Int, Int, Int], None], total: Number
) -> Int:
    """Sweeps over the last block of n rows that is not done until all are; gives `info`.

    `couples(i)` says whether the entry beside the diagonal that couples rows i - 1 and i is not small.
    `sweep(low, high, since)` rotates the rows of a block, from `low` to `high`, which are one row where all is done;
    `since` is the number of sweeps since the last row that was done. `info` is 1 if the sweeps do not converge or
    `total`, the sum of squares of the matrix, is not finite, else 0.
    """
    high, count, since = p.variable(n - 1), p.variable(n if n > 1 else 0), p.variable(0)
    with p.each(0, STEPS), p.each(0, count.value):
        start, low, end = (p.variable(0) for _ in range(3))
        with p.each(1, high.value + 1) as i:
            coupled = couples(i)
            start.set_if(p.no(coupled), i)
            low.set_if(coupled, start.value)
            end.set_if(coupled, i)
        since.set(p.either(end.value.equals(high.value), since.value + 1, 0))
        sweep(low.value, end.value, since.value)
        high.set(end.value)
        count.set_if(high.value.equals(0), 0)
    is_right = p.both(high.value.equals(0), p.scalar(float("inf")) > total)
    return p.either(is_right, 0, 1)


def nearer_eigenvalue(first: Number, product: Number, last: Number) -> Number:
    """The eigenvalue of [[first, b], [c, last]] that is nearer to `last`, where b c is `product`: Wilkinson's shift.

    last - b c / (h + r) for h = (first - last) / 2 and the root r of h^2 + b c for which |h + r| is larger
    """
    p, half = first.p, (first - last) * 0.5
    root = (half * half + product).sqrt
    more, less = half + root, half - root
    divisor = p.either(more.size >= less.size, more, less)
    return last - product / p.either(divisor.is_zero, 1.0, divisor)


@dataclass(frozen=True)
class Diagonals:
    """A diagonal d of n numbers, and e of n + 1 numbers beside it: e[i] is between d[i - 1] and d[i]."""

    d: Matrix
    e: Matrix  # the first and the last number are zero

    @staticmethod
    def make(p: Program, n: int) -> "Diagonals":
        """Diagonals of which only the ends of e are written."""
        d, e = p.work(1, n, "real"), p.work(1, n + 1, "real")
        e[0] = e[n] = 0.0
        return Diagonals(d, e)

    def couples(self, least: Number, i: Int) -> Any:
        """Whether e[i] is larger than `least`, below which it is negligible, and not small; false for a NaN."""
        p, d = self.d.p, self.d
        limit = p.epsilon * (abs(d[i - 1]) + abs(d[i]))
        return abs(self.e[i]) > least.max(limit)

    def chase(self, low: Int, high: Int, first: Number, rotate: Callable[..., Sequence[Number]]) -> None:
        """One sweep from row `low` to row `high`, which moves the entry that a rotation leaves outside the diagonals.

        The first rotation makes e[low + 1] zero beside `first`. `rotate(i, c, s, on, off)` applies a rotation to rows
        i and i + 1, whose entries are `on` on the diagonal and `off` beside it. It gives the cosine and the sine for
        the row after these two, the new d[i], the partner of the entry that the next rotation makes zero, and the next
        `on`.
        """
        p, d, e = self.d.p, self.d, self.e
        f, g = p.variable(first), p.variable(e[low + 1])
        on, off = p.variable(d[low]), p.variable(e[low + 1])
        with p.each(low, high) as i:
            c, s, r = plane(f.value, g.value)
            e[i] = p.either(i.equals(low), 0.0, r)
            c, s, d[i], partner, next_on = rotate(i, c, s, on.value, off.value)
            more = e[i + 2]
            f.set(partner)
            g.set(s * more)
            on.set(next_on)
            off.set(c * more)
        e[high], d[high] = f.value, on.value


def plane(f: Number, g: Number) -> tuple[Number, Number, Number]:
    """c, s and a real r with conj(c) f + conj(s) g = r and c g - s f = 0; 1, 0 and f if both are negligible."""
    p, square = f.p, f.square + g.square
    flat = p.floor * p.floor >= square
    r = p.either(flat, 1.0, square.sqrt)
    return p.either(flat, 1.0, f / r), p.either(flat, 0.0, g / r), p.either(flat, f, r)


def rotate(
    x: Matrix, rows: Sequence[Int], rotations: Sequence[tuple[Number, Number]], start: Any, end: Any
) -> None:
    """Rotates adjacent rows one pair after the other, in the columns from `start` to below `end`.

    A rotation (c, s) replaces two rows u and v by c u + s v and conj(c) v - conj(s) u.
    """
    with x.p.each(start, end) as j:
        y, *others = (x[i, j] for i in rows)
        for i, (c, s), other in zip(rows, rotations, others, strict=False):
            x[i, j] = c * y + s * other
            y = c.conj * other - s.conj * y
        x[rows[-1], j] = y


@dataclass(frozen=True)
class Rotations:
    """The rotations of a sweep, as rows of cosines and sines by the first of both rows; and matrices to rotate."""

    cosines: Matrix
    sines: Matrix
    matrices: Sequence[Matrix]

    @staticmethod
    def make(p: Program, n: int, matrices: Sequence[Matrix], kind: Kind = "real") -> "Rotations":
        """Space for n rotations."""
        return Rotations(p.work(1, n, kind), p.work(1, n, kind), matrices)

    def add(self, i: Int, c: Number, s: Number) -> None:
        """Adds the rotation of rows i and i + 1."""
        self.cosines[i], self.sines[i] = c, s

    def apply(self, low: Int, high: Int) -> None:
        """Rotates rows i and i + 1, for i from `low` to below `high`."""
        for x in self.matrices:
            for group in x.p.groups(low, high, _TOGETHER):
                rotations = [(self.cosines[i], self.sines[i]) for i in group]
                rotate(x, [*group, group[-1] + 1], rotations, 0, x.columns)


def sort_rows(values: Matrix, matrices: Sequence[Matrix], descending: bool = False) -> None:
    """Puts numbers in order, and the rows of matrices in the order of their numbers, of which some may be NaN."""
    p, n = values.p, values.columns
    with p.each(0, n) as i:
        at = p.place_of_largest(i, n, lambda j: values[j] if descending else -values[j])
        for x in (values.transpose, *matrices):
            x.swap_rows(i, at)


def scale(x: Matrix, lower: bool = False) -> tuple[Number, Number]:
    """Divides x by a power of two so that its largest entry is about one; gives the power, and the sum of |x_ij|^2.

    The sum is not finite if an entry is not. With `lower`, x has only the lower triangle.
    """
    p, total = x.p, x.p.variable(0.0)

    def end(i: Int) -> Int | int:
        return i + 1 if lower else x.columns

    unit = p.power_of_two(p.largest(0, x.rows, lambda i: p.largest(0, end(i), lambda j: x[i, j])))
    with p.each(0, x.rows) as i, p.each(0, end(i)) as j:
        x[i, j] = x[i, j] / unit
        total.add(x[i, j].square)
    return unit, total.value
