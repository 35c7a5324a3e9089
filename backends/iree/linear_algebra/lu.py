"""P a = L U with partial pivoting, in blocks of columns, as in LAPACK's getrf.

    each column of a block:      finds its pivot, exchanges rows, computes L, eliminates in the block
    rows of U beside the block:  are solved for
    the rest below both:         less their product, four rows of U at a time

The pivot of a column is the first of the largest entries from the diagonal on; complex entries compare by
|re| + |im|. No NaN counts as larger than a number; a NaN on the diagonal itself stays there.
"""

from typing import Any

from tiduc.backends.iree.emitter import Emitter
from tiduc.backends.iree.linear_algebra.matrices import integers
from tiduc.backends.iree.linear_algebra.program import Matrix, Program, Variable
from tiduc.backends.iree.linear_algebra.run import run
from tiduc.backends.iree.linear_algebra.scalars import Int
from tiduc.dialect.types import shape

_BLOCK = 32
_TOGETHER = 4  # rows of U subtracted at once, so that a row of results is read and written once for them


def factors(b: Emitter, x: Any) -> list[Any]:
    """Both factors in one matrix; pivots, counted from zero; `info`, the first column without a pivot.

    U has the diagonal; that of L is one. `info` counts from one, and is 0 if all columns have pivots.
    """
    batch, m, n = shape(x)
    count = min(m, n)

    def body(p: Program, a: Matrix, lu: Matrix, pivots: Matrix, info: Matrix) -> None:
        lu.copy(a)
        failed = p.counter(0)
        with p.each(0, count, _BLOCK) as first:
            end = (first + _BLOCK).min(count)
            with p.each(first, end) as j:
                _eliminate(lu, pivots, failed, j, end)
            with p.each(first, end) as i:
                _subtract_product(lu, i, first, i, end)
            with p.each(end, m) as i:
                _subtract_product(lu, i, first, end, end)
        info.set_integer(0, failed.value)

    types = [x.type, integers(batch, count), integers(batch, 1)]
    return run(b, [x], types, [], body)


def _eliminate(lu: Matrix, pivots: Matrix, failed: Variable[Int], j: Int, end: Int) -> None:
    """Finds the pivot of column j, computes column j of L, and eliminates in the columns up to `end`."""
    p, at, most = lu.p, lu.p.counter(j), lu.p.variable(lu[j, j].size)
    with p.each(j + 1, lu.rows) as i:
        size = lu[i, j].size
        more = size > most.value
        at.set_if(more, i)
        most.set_if(more, size)
    pivots.set_integer(j, at.value)
    with p.when(p.no(at.value.equals(j))):
        lu.swap_rows(at.value, j)
    none = lu[j, j].is_zero
    pivot = p.either(none, 1.0, lu[j, j])
    failed.set_if(p.both(none, failed.value.equals(0)), j + 1)
    with p.each(j + 1, lu.rows) as i:
        factor = lu[i, j] / pivot
        lu[i, j] = factor
        lu.subtract(i, [(factor, lu, j)], j + 1, end)


def _subtract_product(lu: Matrix, i: Int, start: Int, stop: Int, end: Int) -> None:
    """Row i, from column `end` on, less rows of U times the entries of L in row i."""
    for rows in lu.p.groups(start, stop, _TOGETHER):
        lu.subtract(i, [(lu[i, j], lu, j) for j in rows], end, lu.columns)
