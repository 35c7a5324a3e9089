"""LU factors with partial pivoting in one dispatch, in blocks of columns, as in LAPACK's getrf.

    each column of a block:      finds its pivot, exchanges rows, computes L, eliminates in the block
    rows of U beside the block:  are solved for
    the rest below both:         less their product, four rows of U at a time

The pivot of a column is the first of the largest entries from the diagonal on; complex entries compare by
|re| + |im|. No NaN counts as larger than a number; a NaN on the diagonal itself stays there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tiduc.backends.iree.emitter import Emitter, signless
from tiduc.backends.iree.fast.kernels import Kernel, dispatch
from tiduc.backends.iree.linear_algebra.lines import (
    Layout,
    copied,
    each,
    integers,
    layout,
    less_product,
    lines,
    of_line,
    one_for_zero,
    quotient,
    size,
    type_of_line,
)
from tiduc.dialect.types import shape

_BLOCK = 32
_TOGETHER = 4  # rows of U subtracted at once, so that a row of results is read and written once for them


def eliminated(b: Emitter, x: Any) -> tuple[Any, Any, Any]:
    """Both factors in one matrix; pivots, counted from zero; `info`, the first column without a pivot.

    `info` counts from one, and is 0 if all columns have pivots. Each matrix of a batch has its own.
    """
    batch, m, n = shape(x)
    given, count = lines(b, x), min(m, n)
    types = [type_of_line(x), integers(batch, count + 1)]  # IREE might merge two arrays of one type
    step = _Elimination(layout(x), count, b.fused)

    def fill(k: Kernel) -> Sequence[Any]:
        return each(k, 0, batch, [copied(k, given), k.empty(types[1])], step.of_matrix)

    lu, numbers = dispatch(b, types, fill)
    numbers = b.reshape(numbers, [batch, count + 1])
    pivots, info = (b.slice(numbers, [0, i], [batch, j], [1, 1]) for i, j in ((0, count), (count, count + 1)))
    return of_line(b, lu, x.type), pivots, b.reshape(info, [batch])


@dataclass(frozen=True)
class _Elimination:
    """Matrices in a line, and the number of their columns that have pivots."""

    of: Layout
    count: int
    fused: bool

    def of_matrix(self, k: Kernel, batch: Any, lu: Any, numbers: Any) -> Sequence[Any]:
        """Factorizes one matrix of a batch."""
        start = k.arith("muli", batch, k.index(self.count + 1))

        def block(k: Kernel, first: Any, lu: Any, numbers: Any, info: Any) -> Sequence[Any]:
            end = k.arith("minui", k.arith("addi", first, k.index(_BLOCK)), k.index(self.count))

            def column(k: Kernel, j: Any, lu: Any, numbers: Any, info: Any) -> Sequence[Any]:
                p = self._pivot(k, lu, batch, j)
                numbers = k.put(k.cast(p, signless(32)), numbers, k.arith("addi", start, j))
                lu = k.choice(
                    k.equal(p, j), lu.type, lambda k: [lu], lambda k: self._exchanged(k, lu, batch, p, j)
                )
                pivot, none = one_for_zero(k, self.of.read(k, lu, (batch, j, j)))
                after = k.arith("addi", j, k.index(1))
                found = k.arith("andi", none, k.equal(info, k.index(0)))
                return [self._below(k, lu, batch, j, pivot, end), numbers, k.either(found, after, info)]

            lu, numbers, info = each(k, first, end, [lu, numbers, info], column)
            (lu,) = each(k, first, end, [lu], lambda k, i, lu: self._less(k, lu, batch, i, (first, i), end))
            rest = each(
                k, end, self.of.rows, [lu], lambda k, i, lu: self._less(k, lu, batch, i, (first, end), end)
            )
            return [*rest, numbers, info]

        zero = k.index(0)
        blocks = zero, k.index(self.count), k.index(_BLOCK)
        lu, numbers, info = k.loop(*blocks, [lu, numbers, zero], block)
        last = k.arith("addi", start, k.index(self.count))
        return [lu, k.put(k.cast(info, signless(32)), numbers, last)]

    def _pivot(self, k: Kernel, lu: Any, batch: Any, j: Any) -> Any:
        """The row of the pivot of column j."""

        def compare(k: Kernel, i: Any, p: Any, most: Any) -> Sequence[Any]:
            v = size(k, self.of.read(k, lu, (batch, i, j)))
            more = k.above(v, most)
            return [k.either(more, i, p), k.either(more, v, most)]

        own = size(k, self.of.read(k, lu, (batch, j, j)))
        return each(k, k.arith("addi", j, k.index(1)), self.of.rows, [j, own], compare)[0]

    def _exchanged(self, k: Kernel, lu: Any, batch: Any, p: Any, j: Any) -> Sequence[Any]:
        """The matrices with rows p and j of one exchanged."""

        def entry(k: Kernel, c: Any, lu: Any) -> Sequence[Any]:
            of_p, of_j = (self.of.read(k, lu, (batch, i, c)) for i in (p, j))
            lu = self.of.write(k, of_p, lu, (batch, j, c))
            return [self.of.write(k, of_j, lu, (batch, p, c))]

        return each(k, 0, self.of.columns, [lu], entry)

    def _below(self, k: Kernel, lu: Any, batch: Any, j: Any, pivot: Any, end: Any) -> Any:
        """Computes column j of L, and subtracts its multiples from the columns after it in the block."""
        after = k.arith("addi", j, k.index(1))

        def row(k: Kernel, i: Any, lu: Any) -> Sequence[Any]:
            factor = quotient(k, self.of.read(k, lu, (batch, i, j)), pivot)
            lu = self.of.write(k, factor, lu, (batch, i, j))
            return self._less_rows(k, lu, batch, i, [j], (after, end))

        return each(k, after, self.of.rows, [lu], row)[0]

    def _less(self, k: Kernel, lu: Any, batch: Any, i: Any, rows: Sequence[Any], end: Any) -> Sequence[Any]:
        """Row i, right of the block, less some rows of U, times the entries of L in row i."""
        start, stop = rows
        ones = k.arith("remui", k.arith("subi", stop, start), k.index(_TOGETHER))
        last = k.arith("subi", stop, ones)

        def together(k: Kernel, j: Any, lu: Any) -> Sequence[Any]:
            several = [k.arith("addi", j, k.index(more)) for more in range(_TOGETHER)]
            return self._less_rows(k, lu, batch, i, several, (end, self.of.columns))

        lu = k.loop(start, last, k.index(_TOGETHER), [lu], together)
        return each(
            k, last, stop, lu, lambda k, j, lu: self._less_rows(k, lu, batch, i, [j], (end, self.of.columns))
        )

    def _less_rows(
        self, k: Kernel, lu: Any, batch: Any, i: Any, rows: Sequence[Any], columns: tuple[Any, Any]
    ) -> Sequence[Any]:
        """Row i less other rows, times the entries of L in row i, in some columns."""
        factors = [self.of.read(k, lu, (batch, i, j)) for j in rows]

        def entry(k: Kernel, c: Any, lu: Any) -> Sequence[Any]:
            x = self.of.read(k, lu, (batch, i, c))
            for factor, j in zip(factors, rows, strict=True):
                x = less_product(k, x, factor, self.of.read(k, lu, (batch, j, c)), self.fused)
            return [self.of.write(k, x, lu, (batch, i, c))]

        return each(k, *columns, [lu], entry)
