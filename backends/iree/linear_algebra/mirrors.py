"""Self-inverse reflections 1 - tau v v^H of rows in a kernel: tau is real, and |v|^2 = 2 / tau.

They take a to -phase |a| e, where e is a column of the unit matrix, and phase is that of a's entry there.
LAPACK's reflections (reflections.py) differ: they make complex entries real.

Source: Golub and Van Loan, "Matrix Computations" (2013), section 5.1.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tiduc.backends.iree.fast.kernels import Kernel
from tiduc.backends.iree.linear_algebra.lines import (
    Layout,
    Number,
    added,
    conjugate,
    each,
    less_product,
    square,
    times,
)
from tiduc.backends.iree.linear_algebra.rotations import root
from tiduc.backends.iree.linear_algebra.shifts import floor

Part = tuple[Layout, Any, Any, Any]
"""Some columns of a row: the matrix, the row, the first column, and the one after the last."""


@dataclass(frozen=True)
class Reflectors:
    """The layouts of tau and phases, for several reflections."""

    taus: Layout
    phases: Layout
    fused: bool

    def made(self, k: Kernel, x: Any, part: Part, at: Any) -> tuple[Any, Any]:
        """The line with v in place of a^H in a row, and |a|; `at` is the column of e. tau and phase are by row.

        If a is negligible, then v, tau and |a| are zero.
        """
        zero, real = k.index(0), x.type.element_type
        none, one, least = k.zero(real), k.one(real), k.arith("mulf", *[floor(k, real)] * 2)
        of, i, start, end = part

        def more(k: Kernel, j: Any, total: Any) -> Sequence[Any]:
            return [added(k, total, square(k, of.read(k, x, (zero, i, j))))]

        (total,) = each(k, start, end, [none], more)
        flat = k.not_below(least, total)  # false for a NaN
        length = k.either(flat, one, root(k, total))
        over = k.arith("divf", k.either(flat, none, one), length)

        def entry(k: Kernel, j: Any, x: Any) -> Sequence[Any]:
            y = conjugate(k, of.read(k, x, (zero, i, j)))
            return [of.write(k, tuple(k.arith("mulf", over, part) for part in y), x, (zero, i, j))]

        (x,) = each(k, start, end, [x], entry)
        phase, size = _phase(k, of.read(k, x, (zero, i, at)), least)
        more_than = k.arith("addf", one, size)
        tau = k.either(flat, none, k.arith("divf", one, more_than))
        first = tuple(k.either(flat, none, k.arith("mulf", more_than, part)) for part in phase)
        x = of.write(k, first, x, (zero, i, at))
        x = self.phases.write(k, phase, x, (zero, zero, i))
        return self.taus.write(k, (tau,), x, (zero, zero, i)), k.either(flat, none, length)

    def moved(self, k: Kernel, by: Any) -> "Reflectors":
        """These layouts shifted by an offset."""
        return replace(self, taus=self.taus.moved(k, by), phases=self.phases.moved(k, by))

    def tau(self, k: Kernel, x: Any, i: Any) -> Any:
        """tau of row i."""
        return self.taus.read(k, x, (k.index(0), k.index(0), i))[0]

    def phase(self, k: Kernel, x: Any, i: Any) -> Number:
        """The phase of row i."""
        return self.phases.read(k, x, (k.index(0), k.index(0), i))

    def row(self, k: Kernel, x: Any, of: Layout, r: Any, v: Part, tau: Any, source: Any | None = None) -> Any:
        """The line with row r of a matrix reflected from the right: the row less tau (row v) v^H.

        `source` is the line that has v, if not x.
        """
        zero, (of_v, i, start, end) = k.index(0), v
        none = [k.zero(tau.type)] * (2 if of.complex else 1)

        def more(k: Kernel, j: Any, *sums: Any) -> Sequence[Any]:
            both = of.read(k, x, (zero, r, j)), of_v.read(k, x if source is None else source, (zero, i, j))
            return [added(k, *pair) for pair in zip(sums, times(k, *both), strict=True)]

        factor = tuple(k.arith("mulf", tau, y) for y in each(k, start, end, none, more))

        def entry(k: Kernel, j: Any, x: Any) -> Sequence[Any]:
            y = of.read(k, x, (zero, r, j))
            v = of_v.read(k, x if source is None else source, (zero, i, j))
            return [of.write(k, less_product(k, y, factor, conjugate(k, v), self.fused), x, (zero, r, j))]

        return each(k, start, end, [x], entry)[0]


def _phase(k: Kernel, y: Number, least: Any) -> tuple[Number, Any]:
    """y / |y| and |y|; one and zero if |y| is negligible."""
    none, one, size = k.zero(least.type), k.one(least.type), square(k, y)
    small = k.not_below(least, size)
    size = k.either(small, one, root(k, size))
    unit = (one, *[none] * (len(y) - 1))
    parts = (k.either(small, other, k.arith("divf", part, size)) for part, other in zip(y, unit, strict=True))
    return tuple(parts), k.either(small, none, size)


def unit_matrix(k: Kernel, x: Any, of: Layout, columns: int) -> Any:
    """The line with a matrix set to the unit matrix."""
    zero, real = k.index(0), x.type.element_type
    none = (k.zero(real),) * (2 if of.complex else 1)

    def row(k: Kernel, i: Any, x: Any) -> Sequence[Any]:
        (x,) = each(k, 0, columns, [x], lambda k, j, x: [of.write(k, none, x, (zero, i, j))])
        return [of.write(k, (k.one(real), *none[1:]), x, (zero, i, i))]

    return each(k, 0, of.rows, [x], row)[0]


def row_times(k: Kernel, x: Any, of: Layout, i: Any, columns: int, factor: Number) -> Any:
    """The line with a row of a matrix multiplied by a number."""

    def entry(k: Kernel, j: Any, x: Any) -> Sequence[Any]:
        place = (k.index(0), i, j)
        return [of.write(k, times(k, factor, of.read(k, x, place)), x, place)]

    return each(k, 0, columns, [x], entry)[0]
