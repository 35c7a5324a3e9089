"""Householder reflections H = 1 - tau v v^H, where one entry of v is 1, as in LAPACK's `larfg` and `larf`.

    a H = beta e,  H^H a^H = beta e^H      for a row a, a row e of the unit matrix and a real number beta

The entries of a are scaled before they are squared, so that no square overflows. If a is already a real multiple of e,
then tau is 0.

Source: Golub and Van Loan, "Matrix Computations" (2013), section 5.1.
"""

from dataclasses import dataclass

from tiduc.backends.iree.linear_algebra.program import Matrix
from tiduc.backends.iree.linear_algebra.scalars import Int, Number, Scalar


@dataclass(frozen=True)
class Reflectors:
    """A list of reflections. Row i of `vh` is the v^H of reflection i, and `taus[i]` is its tau."""

    vh: Matrix
    taus: Matrix

    def make(self, i: Int, start: Int | int, end: Int | int, at: Int) -> Number:
        """Computes the reflection i that maps row i of `vh` to beta e, where e is 1 in column `at`. Returns beta.

        Replaces the row, in columns `start` to below `end`, by v^H, and sets `taus[i]`.
        """
        vh, p = self.vh, self.vh.p
        own, top = vh[i, at], p.largest(start, end, lambda j: vh[i, j])
        unit = p.select(top > 0.0, top, 1.0)
        vh[i, at] = 0.0
        rest, first = p.variable(0.0), own / unit
        with p.each(start, end) as j:
            vh[i, j] = vh[i, j] / unit
            rest.add(vh[i, j].square)
        flat = p.logical_and(rest.value.is_zero, first.im.is_zero)
        length = (rest.value + first.square).sqrt
        beta = p.select(flat, first.re, p.select(first.re >= 0.0, -length, length))
        self.taus[i] = p.select(flat, 0.0, (beta - first.conj) / p.select(flat, 1.0, beta))
        over = p.select(flat, 0.0, p.scalar(1.0) / (first - beta))
        with p.each(start, end) as j:
            vh[i, j] = over * vh[i, j]
        vh[i, at] = 1.0
        return beta * unit

    def reflect_row(
        self, x: Matrix, r: Int, i: Int, start: int | Scalar, end: int | Scalar, adjoint: bool = False
    ) -> None:
        """Multiplies row r of x, in columns `start` to below `end`, from the right by reflection i or its adjoint."""
        p, vh, tau = x.p, self.vh, self.taus[i]
        total = p.sum(start, end, lambda j: x[r, j] * vh[i, j].conj, x.zero)
        factor = (tau.conj if adjoint else tau) * total
        x.subtract_row(r, factor, vh, i, (start, end))

    def reflect_columns(
        self,
        x: Matrix,
        w: Matrix,
        i: Int,
        rows: tuple[Scalar, int],
        columns: tuple[int | Scalar, int],
        adjoint: bool = True,
    ) -> None:
        """Multiplies a submatrix of x from the left by the adjoint of reflection i, or by the reflection itself.

        The submatrix has the rows and columns in the ranges `rows` and `columns`. The row w is scratch space for v^H x.
        """
        p, tau = x.p, self.taus[i].conj if adjoint else self.taus[i]
        with p.when(p.logical_not(tau.is_zero)):
            with p.each(*columns) as j:
                w[j] = 0.0
            w.subtract([0], lambda _, r: -self.vh[i, r], x, rows, columns)
            with p.each(*rows) as r:
                x.subtract_row(r, tau * self.vh[i, r].conj, w, 0, columns)
