"""What QR algorithms with shifts share: blocks that are not diagonal yet, and the rotations of a sweep.

An entry beside the diagonal is small if it is at most epsilon times the sum of its neighbours on the
diagonal, or negligible.

Source: Golub and Van Loan, "Matrix Computations" (2013), section 8.3.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tiduc.backends.iree.linear_algebra.program import Matrix, Program
from tiduc.backends.iree.linear_algebra.scalars import Int, Number

STEPS = 30
"""The most sweeps per value, on average, as in LAPACK; about two are usual."""

_TOGETHER = 2  # rotations applied at once, so that a row is read and written once for them


def until_done(p: Program, n: int, step: Callable[[Int], Int]) -> Number:
    """Repeats `high = step(high)`, the last row that is not done, from n - 1 on; 0 at row 0, or 1 without an end."""
    high = p.place(n - 1)
    count = p.place(n if n > 1 else 0)
    with p.each(0, STEPS), p.each(0, count.value):
        high.set(step(high.value))
        count.set_if(high.value.equals(0), 0)
    return p.either(high.value.equals(0), 0.0, 1.0)


@dataclass(frozen=True)
class Beside:
    """A diagonal d and e beside it, where e[i] is between d[i - 1] and d[i]."""

    d: Matrix
    e: Matrix  # one entry longer than d: the first and the last are zero

    def clear_ends(self) -> None:
        """Writes zeros to the ends of e."""
        for i in (0, self.e.columns - 1):
            self.e[i] = self.e.p.constant(0.0)

    def diagonalize(self, least: Number, sweep: Callable[[Int, Int], None]) -> Number:
        """Sweeps until e is negligible; gives 0, or 1 without convergence.

        `sweep(low, high)` rotates the rows from `low` to `high`, which are one row where all is done. Entries of e up
        to `least` are negligible.
        """

        def step(high: Int) -> Int:
            low, high = self._block(high, least)
            sweep(low, high)
            return high

        return until_done(self.d.p, self.d.columns, step)

    def _block(self, high: Int, least: Number) -> tuple[Int, Int]:
        """The first and the last row of the last block up to row `high`; twice the first row where all is done."""
        p = self.d.p
        start, low, end = (p.place(0) for _ in range(3))
        with p.each(1, high + 1) as i:
            limit = p.epsilon * (abs(self.d[i - 1]) + abs(self.d[i]))
            some = abs(self.e[i]) > least.max(limit)  # false for a NaN
            start.set_if(p.no(some), i)
            low.set_if(some, start.value)
            end.set_if(some, i)
        return low.value, end.value


def plane(f: Number, g: Number) -> tuple[Number, Number, Number]:
    """c, s and r with c f + s g = r and c g - s f = 0; 1, 0 and f if both are negligible."""
    p = f.p
    square = f * f + g * g
    flat = p.floor * p.floor >= square
    r = p.either(flat, 1.0, square.sqrt)
    return p.either(flat, 1.0, f / r), p.either(flat, 0.0, g / r), p.either(flat, f, r)


@dataclass(frozen=True)
class Turns:
    """The rotations of a sweep, as cosines and sines by the first of both rows; and matrices to rotate."""

    cosines: Matrix
    sines: Matrix
    rows: Sequence[Matrix]

    def note(self, i: Int, c: Number, s: Number) -> None:
        """Adds the rotation of rows i and i + 1."""
        self.cosines[i], self.sines[i] = c, s

    def make(self, low: Int, high: Int) -> None:
        """Rotates rows i and i + 1, for i from `low` to below `high`."""
        p = self.cosines.p
        for x in self.rows:
            for places in p.several(low, high, _TOGETHER):
                self._turn(x, [*places, places[-1] + 1])

    def _turn(self, x: Matrix, places: Sequence[Int]) -> None:
        turns = [(self.cosines[at], self.sines[at]) for at in places[:-1]]
        with x.p.each(0, x.columns) as j:
            y, *others = (x[at, j] for at in places)
            for at, (c, s), other in zip(places, turns, others, strict=False):
                x[at, j] = (c * y).less(-s, other)
                y = (c * other).less(s, y)
            x[places[-1], j] = y


def sort_rows(values: Matrix, rows: Sequence[Matrix], descending: bool = False) -> None:
    """Puts numbers in order, and the rows of matrices in the order of their numbers, of which some may be NaN."""
    p, n = values.p, values.columns
    with p.each(0, n) as i:
        own = values[i]
        at, first = p.place(i), p.number(own)
        with p.each(i + 1, n) as j:
            before = values[j] > first.value if descending else first.value > values[j]
            at.set_if(before, j)
            first.set_if(before, values[j])
        values[at.value] = own
        values[i] = first.value
        for x in rows:
            x.swap_rows(i, at.value, x.columns)
