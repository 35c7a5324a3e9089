"""Shared by the QR algorithms with shifts: convergence, blocks that are not diagonal yet, and rotations.

An entry beside the diagonal is small if it is at most epsilon times the sum of its neighbours on the
diagonal, or negligible.

Source: Golub and Van Loan, "Matrix Computations" (2013), sections 5.1.8 and 8.3.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tiduc.backends.iree.linear_algebra.program import Matrix, Program
from tiduc.backends.iree.linear_algebra.scalars import Int, Number

STEPS = 30
"""The most sweeps per value, on average, as in LAPACK; about two are usual."""

_TOGETHER = 2  # rotations applied at once, so that a row is read and written once for them


def until_done(p: Program, n: int, step: Callable[[Int], Int]) -> Any:
    """Repeats `high = step(high)`, the last row that is not done, from n - 1 on; whether it gets to row 0."""
    high, count = p.counter(n - 1), p.counter(n if n > 1 else 0)
    with p.each(0, STEPS), p.each(0, count.value):
        high.set(step(high.value))
        count.set_if(high.value.equals(0), 0)
    return high.value.equals(0)


def last_block(p: Program, high: Int, couples: Callable[[Int], Any]) -> tuple[Int, Int]:
    """The first and the last row of the last block up to row `high`; twice row 0 where all is done.

    `couples(i)` says whether the entry beside the diagonal that couples rows i - 1 and i is not small.
    """
    start, low, end = (p.counter(0) for _ in range(3))
    with p.each(1, high + 1) as i:
        coupled = couples(i)
        start.set_if(p.no(coupled), i)
        low.set_if(coupled, start.value)
        end.set_if(coupled, i)
    return low.value, end.value


@dataclass(frozen=True)
class Beside:
    """A diagonal d of n numbers, and e of n + 1 numbers beside it: e[i] is between d[i - 1] and d[i]."""

    d: Matrix
    e: Matrix  # the first and the last number are zero

    def clear_ends(self) -> None:
        """Writes zeros to the ends of e."""
        for i in (0, self.e.columns - 1):
            self.e[i] = 0.0

    def diagonalize(self, least: Number, sweep: Callable[[Int, Int], None]) -> Any:
        """Sweeps until e is negligible; gives whether the sweeps converge.

        `sweep(low, high)` rotates the rows from `low` to `high`, which are one row where all is done. Entries of e up
        to `least` are negligible.
        """
        p, d, e = self.d.p, self.d, self.e

        def couples(i: Int) -> Any:
            limit = p.epsilon * (abs(d[i - 1]) + abs(d[i]))
            return abs(e[i]) > least.max(limit)  # false for a NaN

        def step(high: Int) -> Int:
            low, high = last_block(p, high, couples)
            sweep(low, high)
            return high

        return until_done(p, d.columns, step)


def plane(f: Number, g: Number) -> tuple[Number, Number, Number]:
    """c, s and a real r with conj(c) f + conj(s) g = r and c g - s f = 0; 1, 0 and f if both are negligible."""
    p, square = f.p, f.square + g.square
    flat = p.floor * p.floor >= square
    r = p.either(flat, 1.0, square.sqrt)
    return p.either(flat, 1.0, f / r), p.either(flat, 0.0, g / r), p.either(flat, f, r)


def rotate(
    x: Matrix, rows: Sequence[Int], turns: Sequence[tuple[Number, Number]], start: Any, end: Any
) -> None:
    """Rotates adjacent rows one pair after the other, in the columns from `start` to below `end`.

    A rotation replaces two rows u and v by c u + s v and conj(c) v - conj(s) u.
    """
    with x.p.each(start, end) as j:
        y, *others = (x[i, j] for i in rows)
        for i, (c, s), other in zip(rows, turns, others, strict=False):
            x[i, j] = c * y + s * other
            y = c.conj * other - s.conj * y
        x[rows[-1], j] = y


@dataclass(frozen=True)
class Turns:
    """The rotations of a sweep, as rows of cosines and sines by the first of both rows; and matrices to rotate."""

    cosines: Matrix
    sines: Matrix
    matrices: Sequence[Matrix]

    def note(self, i: Int, c: Number, s: Number) -> None:
        """Adds the rotation of rows i and i + 1."""
        self.cosines[i], self.sines[i] = c, s

    def apply(self, low: Int, high: Int) -> None:
        """Rotates rows i and i + 1, for i from `low` to below `high`."""
        for x in self.matrices:
            for group in x.p.groups(low, high, _TOGETHER):
                turns = [(self.cosines[i], self.sines[i]) for i in group]
                rotate(x, [*group, group[-1] + 1], turns, 0, x.columns)


def sort_rows(values: Matrix, matrices: Sequence[Matrix], descending: bool = False) -> None:
    """Puts numbers in order, and the rows of matrices in the order of their numbers, of which some may be NaN."""
    p, n = values.p, values.columns
    with p.each(0, n) as i:
        own = values[i]
        at, first = p.counter(i), p.variable(own)
        with p.each(i + 1, n) as j:
            before = values[j] > first.value if descending else first.value > values[j]
            at.set_if(before, j)
            first.set_if(before, values[j])
        values[at.value] = own
        values[i] = first.value
        for x in matrices:
            x.swap_rows(i, at.value)


def scale(x: Matrix, lower: bool = False) -> tuple[Number, Number]:
    """Divides x by a power of two so that its largest entry is about one; gives the power, and the sum of |x_ij|^2.

    The sum is not finite if an entry is not. With `lower`, x has only the lower triangle.
    """
    p, top, total = x.p, x.p.variable(0.0), x.p.variable(0.0)
    with p.each(0, x.rows) as i, p.each(0, i + 1 if lower else x.columns) as j:
        top.set(top.value.max(x[i, j]))
    unit = p.power_of_two(top.value)
    with p.each(0, x.rows) as i, p.each(0, i + 1 if lower else x.columns) as j:
        x[i, j] = x[i, j] / unit
        total.add(x[i, j].square)
    return unit, total.value


def write_info(info: Matrix, done: Any, total: Number) -> None:
    """Writes 0, or 1 if the sweeps do not converge or the sum of squares of the matrix is not finite."""
    p, failed = info.p, info.p.counter(1)
    failed.set_if(p.both(done, p.number(float("inf")) > total), 0)
    info.set_integer(0, failed.value)
