"""Triangular solves in one dispatch.

    row i of x:  row i of c, less a_ij times row j of x for each j < i, four at a time, over a_ii

The inner loop runs along the right-hand sides. A single right-hand side, or right-hand sides stored as rows,
are solved one by one: once an entry is known, its multiples are subtracted from the entries after it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tiduc.backends.iree.emitter import Emitter
from tiduc.backends.iree.fast.kernels import Kernel, dispatch
from tiduc.backends.iree.linear_algebra.lines import (
    Layout,
    Number,
    copied,
    each,
    layout,
    less_product,
    lines,
    of_line,
    quotient,
    type_of_line,
)
from tiduc.backends.iree.linear_algebra.matrices import transposed
from tiduc.dialect.types import shape

_TOGETHER = 4  # rows subtracted at once, so that a row of x is read and written once for them
_MANY = 8  # right-hand sides from which on it pays to read the matrix along its rows


def substituted(b: Emitter, a: Any, c: Any, *, left: bool, lower: bool, unit: bool, transpose: bool) -> Any:
    """x with op(a) x = c, or x op(a) = c unless `left`; op is the transpose or the identity.

    Reads one triangle of a, and its diagonal unless `unit`.
    """
    # x op(a) = c is op(a)^T x^T = c^T.
    turned = transpose == left
    if not left and not turned and shape(c)[1] >= _MANY:
        a, turned = transposed(b, a), True
    back = lower == transpose if left else lower != transpose
    of_a = layout(a, turned=turned, rows_back=back, columns_back=back)
    solve = _Substitution(of_a, layout(c, turned=not left, rows_back=back), lines(b, a), unit, b.fused)
    right = lines(b, c)
    each_row = left and shape(c)[2] > 1

    def fill(k: Kernel) -> Sequence[Any]:
        step = solve.by_rows if each_row else solve.by_right_hand_sides
        return each(k, 0, shape(c)[0], [copied(k, right)], step)

    return of_line(b, dispatch(b, [type_of_line(c)], fill)[0], c.type)


@dataclass(frozen=True)
class _Substitution:
    """Lower triangular matrices, with their layout and that of x."""

    of_a: Layout
    of_x: Layout
    a: Number
    unit: bool
    fused: bool

    def by_rows(self, k: Kernel, batch: Any, x: Any) -> Sequence[Any]:
        """Solves for one matrix, row by row."""

        def row(k: Kernel, i: Any, x: Any) -> Sequence[Any]:
            ones = k.arith("remui", i, k.index(_TOGETHER))
            last = k.arith("subi", i, ones)

            def together(k: Kernel, j: Any, x: Any) -> Sequence[Any]:
                several = [k.arith("addi", j, k.index(more)) for more in range(_TOGETHER)]
                return self._less_rows(k, x, batch, i, several)

            x = k.loop(k.index(0), last, k.index(_TOGETHER), [x], together)
            (x,) = each(k, last, i, x, lambda k, j, x: self._less_rows(k, x, batch, i, [j]))
            return [x] if self.unit else self._over(k, x, batch, i)

        return each(k, 0, self.of_a.rows, [x], row)

    def by_right_hand_sides(self, k: Kernel, batch: Any, x: Any) -> Sequence[Any]:
        """Solves for one matrix, one right-hand side after the other."""

        def column(k: Kernel, c: Any, x: Any) -> Sequence[Any]:
            def entry(k: Kernel, j: Any, x: Any) -> Sequence[Any]:
                v = self.of_x.read(k, x, (batch, j, c))
                if not self.unit:
                    v = quotient(k, v, self._entry(k, batch, j, j))
                    x = self.of_x.write(k, v, x, (batch, j, c))

                def less(k: Kernel, i: Any, x: Any) -> Sequence[Any]:
                    y = self.of_x.read(k, x, (batch, i, c))
                    y = less_product(k, y, v, self._entry(k, batch, i, j), self.fused)
                    return [self.of_x.write(k, y, x, (batch, i, c))]

                return each(k, k.arith("addi", j, k.index(1)), self.of_a.rows, [x], less)

            return each(k, 0, self.of_a.rows, [x], entry)

        return each(k, 0, self.of_x.columns, [x], column)

    def _entry(self, k: Kernel, batch: Any, i: Any, j: Any) -> Number:
        return self.of_a.given(k, self.a, (batch, i, j))

    def _less_rows(self, k: Kernel, x: Any, batch: Any, i: Any, rows: Sequence[Any]) -> Sequence[Any]:
        """Row i of x less other rows, times the matrix's entries in row i."""
        factors = [self._entry(k, batch, i, j) for j in rows]

        def entry(k: Kernel, c: Any, x: Any) -> Sequence[Any]:
            y = self.of_x.read(k, x, (batch, i, c))
            for factor, j in zip(factors, rows, strict=True):
                y = less_product(k, y, factor, self.of_x.read(k, x, (batch, j, c)), self.fused)
            return [self.of_x.write(k, y, x, (batch, i, c))]

        return each(k, 0, self.of_x.columns, [x], entry)

    def _over(self, k: Kernel, x: Any, batch: Any, i: Any) -> Sequence[Any]:
        """Row i of x over the diagonal entry."""
        divisor = self._entry(k, batch, i, i)

        def entry(k: Kernel, c: Any, x: Any) -> Sequence[Any]:
            y = quotient(k, self.of_x.read(k, x, (batch, i, c)), divisor)
            return [self.of_x.write(k, y, x, (batch, i, c))]

        return each(k, 0, self.of_x.columns, [x], entry)
