"""Self-inverse reflections 1 - tau v v^H of rows in a kernel: tau is real, and |v|^2 = 2 / tau.

They take a to -phase |a| e, where e is a column of the unit matrix, and phase is that of a's entry there.
LAPACK's reflections (qr.py) differ: they make complex entries real.

Source: Golub and Van Loan, "Matrix Computations" (2013), section 5.1.
"""

from dataclasses import dataclass
from typing import Any

from tiduc.backends.iree.linear_algebra.program import Matrix
from tiduc.backends.iree.linear_algebra.scalars import Int, Number


@dataclass(frozen=True)
class Reflectors:
    """Reflections by row: v in the rows of a matrix from column `start` of a row to below `end`, tau, and phases."""

    v: Matrix
    taus: Matrix
    phases: Matrix

    def make(self, i: Int, start: Any, end: Any, at: Int) -> Number:
        """Writes v in place of a^H to row i, and gives |a|; `at` is the column of e.

        If a is negligible, then v, tau and |a| are zero.
        """
        v, p = self.v, self.v.p
        least = p.floor * p.floor
        total = p.number(0.0)
        with p.each(start, end) as j:
            total.add(v[i, j].square)
        flat = least >= total.value  # false for a NaN
        length = p.either(flat, 1.0, total.value.sqrt)
        over = p.either(flat, p.constant(0.0), p.constant(1.0)) / length
        with p.each(start, end) as j:
            v[i, j] = over * v[i, j].conj
        phase, size = self._phase(v[i, at], least)
        more = size + 1.0
        v[i, at] = p.either(flat, v.zero, more * phase)
        self.phases[i] = phase
        self.taus[i] = p.either(flat, p.constant(0.0), p.constant(1.0) / more)
        return p.either(flat, p.constant(0.0), length)

    def reflect_row(self, x: Matrix, r: Int, i: Int, start: Any, end: Any) -> None:
        """Reflects row r of x from the right by reflection i: the row less tau (row v) v^H."""
        p, v = x.p, self.v
        total = p.number(x.zero)
        with p.each(start, end) as j:
            total.add(x[r, j] * v[i, j])
        factor = self.taus[i] * total.value
        with p.each(start, end) as j:
            x[r, j] = x[r, j].less(factor, v[i, j].conj)

    def reflect_columns(
        self, x: Matrix, w: Matrix, i: Int, rows: tuple[Any, Any], columns: tuple[Any, Any]
    ) -> None:
        """Reflects some columns of x from the left by reflection i, which has v in these rows: w = v^H x."""
        p, tau = x.p, self.taus[i]
        with p.each(*columns) as j:
            w[j] = x.zero
        with p.each(*rows) as r:
            w.less_row(0, -self.v[i, r].conj, x, r, *columns)
        with p.each(*rows) as r:
            x.less_row(r, tau * self.v[i, r], w, 0, *columns)

    def _phase(self, y: Number, least: Number) -> tuple[Number, Number]:
        """y / |y| and |y|; one and zero if |y| is negligible."""
        p = y.p
        small = least >= y.square
        size = p.either(small, 1.0, y.square.sqrt)
        return p.either(small, self.v.one, y / size), p.either(small, 0.0, size)
