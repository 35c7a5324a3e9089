"""Parts that the QR algorithms with shifts share: the main loop, which tests convergence; shifts; and rotations.

An entry beside the diagonal is small if it is below a fixed limit, or at most epsilon times the sum of the absolute
values of its two neighbours on the diagonal. A block is a range of rows in which no entry beside the diagonal is small.

Source: Golub and Van Loan, "Matrix Computations" (2013), sections 5.1.8 and 8.3.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tiduc.backends.iree.linear_algebra.program import Kind, Matrix, MatrixProgram
from tiduc.backends.iree.linear_algebra.scalars import Int, Number
from tiduc.dialect.ops.ir_types import IrValue

STEPS = 30
"""The average number of sweeps for each eigenvalue or singular value is limited to 30, as in LAPACK.

Two sweeps for each value are usual.
"""

_ROTATIONS_AT_ONCE = 2  # with two, a row that both rotations change is read and written once


def qr_algorithm(
    p: MatrixProgram,
    n: int,
    couples: Callable[[Int], IrValue],
    sweep: Callable[[Int, Int, Int], None],
    total: Number,
) -> Int:
    """Applies sweeps to the last block of a matrix of n rows until each block is a single row. Returns `info`.

    - `couples(i)`: whether the entry beside the diagonal that couples rows i - 1 and i is not small.
    - `sweep(low, high, since)`: rotates the rows of the block from row `low` to row `high`. `since` is the number of
      sweeps since the last row converged. After all rows have converged, `low` and `high` are 0.
    - `total`: the sum of the squares of the matrix's entries.

    `info` is 1 if the sweeps do not converge or `total` is not finite, and otherwise 0.
    """
    high, count, since = p.variable(n - 1), p.variable(n if n > 1 else 0), p.variable(0)
    with p.each(0, STEPS), p.each(0, count.value):
        start, low, end = (p.variable(0) for _ in range(3))
        with p.each(1, high.value + 1) as i:
            coupled = couples(i)
            start.set_if(p.logical_not(coupled), i)
            low.set_if(coupled, start.value)
            end.set_if(coupled, i)
        since.set(p.select(end.value.equals(high.value), since.value + 1, 0))
        sweep(low.value, end.value, since.value)
        high.set(end.value)
        count.set_if(high.value.equals(0), 0)
    is_right = p.logical_and(high.value.equals(0), p.scalar(float("inf")) > total)
    return p.select(is_right, 0, 1)


def nearer_eigenvalue(first: Number, product: Number, last: Number) -> Number:
    """Wilkinson's shift: the eigenvalue of [[first, b], [c, last]] that is nearer to `last`, where b c is `product`.

    The shift is last - b c / (h + r), where h = (first - last) / 2, and r is the square root of h^2 + b c with the sign
    for which |h + r| is larger.
    """
    p, half = first.p, (first - last) * 0.5
    root = (half * half + product).sqrt
    more, less = half + root, half - root
    divisor = p.select(more.size >= less.size, more, less)
    return last - product / p.select(divisor.is_zero, 1.0, divisor)


@dataclass(frozen=True)
class Diagonals:
    """A tridiagonal or bidiagonal matrix: the diagonal d of n entries, and the n + 1 entries e beside the diagonal.

    e[i] is the entry that couples rows i - 1 and i.
    """

    d: Matrix
    e: Matrix  # the first and the last entry are zero

    @staticmethod
    def make(p: MatrixProgram, n: int) -> "Diagonals":
        """Uninitialized diagonals. Only the first and the last entry of e are set."""
        d, e = p.work(1, n, "real"), p.work(1, n + 1, "real")
        e[0] = e[n] = 0.0
        return Diagonals(d, e)

    def couples(self, least: Number, i: Int) -> IrValue:
        """Whether |e[i]| exceeds both `least` and epsilon times |d[i - 1]| + |d[i]|. False for NaN."""
        p, d = self.d.p, self.d
        limit = p.epsilon * (abs(d[i - 1]) + abs(d[i]))
        return abs(self.e[i]) > least.max(limit)

    def chase(self, low: Int, high: Int, first: Number, rotate: Callable[..., Sequence[Number]]) -> None:
        """Applies one sweep of rotations, from row `low` to row `high`.

        Each rotation creates an entry outside of the diagonals, which the next rotation eliminates. The first rotation
        maps (`first`, e[low + 1]) to (r, 0). The callback `rotate(i, c, s, on, off)` applies the rotation with cosine c
        and sine s to rows i and i + 1, where `on` is the entry of row i on the diagonal, and `off` is the entry beside
        it. The callback returns:

        - the cosine and the sine by which the entry beside the diagonal of the next row is multiplied
        - the new d[i]
        - the entry that the next rotation pairs with the created entry
        - the next `on`
        """
        p, d, e = self.d.p, self.d, self.e
        f, g = p.variable(first), p.variable(e[low + 1])
        on, off = p.variable(d[low]), p.variable(e[low + 1])
        with p.each(low, high) as i:
            c, s, r = plane(f.value, g.value)
            e[i] = p.select(i.equals(low), 0.0, r)
            c, s, d[i], partner, next_on = rotate(i, c, s, on.value, off.value)
            more = e[i + 2]
            f.set(partner)
            g.set(s * more)
            on.set(next_on)
            off.set(c * more)
        e[high], d[high] = f.value, on.value


def plane(f: Number, g: Number) -> tuple[Number, Number, Number]:
    """The rotation that maps (f, g) to (r, 0): returns c, s and r.

    conj(c) f + conj(s) g = r and c g - s f = 0, and r is real. If f and g are negligible, returns 1, 0 and f.
    """
    p, square = f.p, f.square + g.square
    flat = p.floor * p.floor >= square
    r = p.select(flat, 1.0, square.sqrt)
    return p.select(flat, 1.0, f / r), p.select(flat, 0.0, g / r), p.select(flat, f, r)


def rotate(
    x: Matrix,
    rows: Sequence[Int],
    rotations: Sequence[tuple[Number, Number]],
    start: Int | int,
    end: Int | int,
) -> None:
    """Applies rotation k to rows k and k + 1 of `rows`, one after the other, in columns `start` to below `end`.

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
    """The rotations of a sweep, and the matrices that they rotate. Rotation i acts on rows i and i + 1."""

    cosines: Matrix
    sines: Matrix
    matrices: Sequence[Matrix]

    @staticmethod
    def make(p: MatrixProgram, n: int, matrices: Sequence[Matrix], kind: Kind = "real") -> "Rotations":
        """Allocates space for n rotations of `matrices`. `kind` is the kind of the cosines and sines."""
        return Rotations(p.work(1, n, kind), p.work(1, n, kind), matrices)

    def add(self, i: Int, c: Number, s: Number) -> None:
        """Stores the rotation of rows i and i + 1."""
        self.cosines[i], self.sines[i] = c, s

    def apply(self, low: Int, high: Int) -> None:
        """Applies the stored rotations i, which act on rows i and i + 1, for i from `low` to below `high`."""
        for x in self.matrices:
            for group in x.p.groups(low, high, _ROTATIONS_AT_ONCE):
                rotations = [(self.cosines[i], self.sines[i]) for i in group]
                rotate(x, [*group, group[-1] + 1], rotations, 0, x.columns)


def sort_rows(values: Matrix, matrices: Sequence[Matrix], descending: bool = False) -> None:
    """Sorts the row `values`, by default in ascending order, and puts the rows of `matrices` in the same order.

    `values` may contain NaN.
    """
    p, n = values.p, values.columns
    with p.each(0, n) as i:
        at = p.place_of_largest(i, n, lambda j: values[j] if descending else -values[j])
        for x in (values.transpose, *matrices):
            x.swap_rows(i, at)


def scale(x: Matrix, lower: bool = False) -> tuple[Number, Number]:
    """Divides x, in place, by a power of two, so that its largest entry is about one.

    Returns the power of two, and the sum of |x_ij|^2 after the division. The sum is not finite if an entry is not
    finite. With `lower`, only the lower triangle is read and divided.
    """
    p, total = x.p, x.p.variable(0.0)

    def end(i: Int) -> Int | int:
        return i + 1 if lower else x.columns

    unit = p.power_of_two(p.largest(0, x.rows, lambda i: p.largest(0, end(i), lambda j: x[i, j])))
    with p.each(0, x.rows) as i, p.each(0, end(i)) as j:
        x[i, j] = x[i, j] / unit
        total.add(x[i, j].square)
    return unit, total.value
