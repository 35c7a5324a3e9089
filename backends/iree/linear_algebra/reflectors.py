"""Householder reflections H = 1 - tau v v^H with v = 1 at one place, as LAPACK's `larfg` and `larf` have them.

    a H = beta e,  H^H a^H = beta e^H      for a row a, a row e of the unit matrix and a real number beta

Entries are scaled on the way, so that no square overflows. If a is beta e already, then tau = 0.

Source: Golub and Van Loan, "Matrix Computations" (2013), section 5.1.
"""

from dataclasses import dataclass
from typing import Any

from tiduc.backends.iree.linear_algebra.program import Matrix
from tiduc.backends.iree.linear_algebra.scalars import Int, Number


@dataclass(frozen=True)
class Reflectors:
    """Reflections by number: v^H in part of a row of a matrix, and tau in a row."""

    vh: Matrix
    taus: Matrix

    def make(self, i: Int, start: Int | int, end: Int | int, at: Int) -> Number:
        """Writes v^H in place of a, in row i from column `start` to below `end`; gives beta. e is 1 at column `at`."""
        vh, p = self.vh, self.vh.p
        own, top = vh[i, at], p.largest(start, end, lambda j: vh[i, j])
        unit = p.either(top > 0.0, top, 1.0)
        vh[i, at] = 0.0
        rest, first = p.variable(0.0), own / unit
        with p.each(start, end) as j:
            vh[i, j] = vh[i, j] / unit
            rest.add(vh[i, j].square)
        flat = p.both(rest.value.is_zero, first.im.is_zero)
        length = (rest.value + first.square).sqrt
        beta = p.either(flat, first.re, p.either(first.re >= 0.0, -length, length))
        self.taus[i] = p.either(flat, 0.0, (beta - first.conj) / p.either(flat, 1.0, beta))
        over = p.either(flat, 0.0, p.scalar(1.0) / (first - beta))
        with p.each(start, end) as j:
            vh[i, j] = over * vh[i, j]
        vh[i, at] = 1.0
        return beta * unit

    def reflect_row(self, x: Matrix, r: Int, i: Int, start: Any, end: Any, adjoint: bool = False) -> None:
        """Multiplies row r of x by reflection i, or its adjoint, which changes columns from `start` to below `end`."""
        p, vh, tau = x.p, self.vh, self.taus[i]
        total = p.sum(start, end, lambda j: x[r, j] * vh[i, j].conj, x.zero)
        factor = (tau.conj if adjoint else tau) * total
        x.subtract_row(r, factor, vh, i, (start, end))

    def reflect_columns(
        self,
        x: Matrix,
        w: Matrix,
        i: Int,
        rows: tuple[Any, Any],
        columns: tuple[Any, Any],
        adjoint: bool = True,
    ) -> None:
        """Multiplies some columns of x by the adjoint of reflection i, or by the reflection, which changes these rows.

        The row w is for v^H x.
        """
        p, tau = x.p, self.taus[i].conj if adjoint else self.taus[i]
        with p.when(p.no(tau.is_zero)):
            with p.each(*columns) as j:
                w[j] = 0.0
            w.subtract([0], lambda _, r: -self.vh[i, r], x, rows, columns)
            with p.each(*rows) as r:
                x.subtract_row(r, tau * self.vh[i, r].conj, w, 0, columns)
