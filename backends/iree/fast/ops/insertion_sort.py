"""Sorts short rows, or rows of which only the first sorted elements are read, by insertion, in one dispatch on CPUs.

    kept = []        the indices of the elements that come first, in order
    for each index: insert it into `kept`; if `kept` is full, drop its last index

The sort is stable. It supports any comparator and any number of arrays that are sorted together.
"""

import math
from collections.abc import Sequence

from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import ON_CPUS, Emitter, legalize, signless
from tiduc.backends.iree.emit.kernels import Kernel, dispatch
from tiduc.backends.iree.emit.rows import Rows, rows_of, sorted_dimension
from tiduc.backends.iree.emit.sizes import RunTimeSize, known
from tiduc.backends.iree.fault import slow
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import is_dynamic, shape


@legalize("stablehlo.sort", where=ON_CPUS)
@slow(
    "Merge sort is slow for short rows, and if only the first elements are read; tiduc emits an insertion sort.",
    "flags.py: short rows",
)
def sort(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Sorts by insertion if this is faster than merge sort. Computes only as many leading elements as are read.

    Returns None if merge sort is faster, for dynamic shapes, and if there is nothing to sort.
    """
    if is_dynamic(op.operands[0].type):
        return None
    dimension, sizes = sorted_dimension(op), shape(op.operands[0])
    n = sizes[dimension]
    if n < 2 or not math.prod(sizes):
        return None
    rows, count = math.prod(sizes) // n, _read_first(op, dimension)
    if not _pays(rows, n, count):
        return None
    first = _insertion_sort(b, op, dimension, count)
    if count == n:
        return first
    # All readers of the results are slices of leading elements. Replace them by slices of the shorter results.
    for y, leading in zip(op.results, first, strict=True):
        for use in list(y.uses):
            part = use.owner.results[0]
            part.replace_all_uses_with(b.cut(leading, dimension, 0, part.type.shape[dimension]))
    return [b.constant(0, y.type) for y in op.results]


def _read_first(op: IrOp, dimension: int) -> int:
    """Returns the number of leading elements along `dimension` that the readers of a sort's results need, at least 2.

    Returns the full size if some reader is not a slice that only cuts off the end of `dimension`.
    """
    sizes: list[int] = shape(op.operands[0])
    count = 2  # at least 2, because the compiler would drop a dimension of size 1
    for y in op.results:
        for use in y.uses:
            part = use.owner
            if part.name != "stablehlo.slice" or any(part.attributes["start_indices"]):
                return sizes[dimension]
            if set(part.attributes["strides"]) != {1}:
                return sizes[dimension]
            limits = list(part.attributes["limit_indices"])
            count = max(count, limits[dimension])
            if any(limits[i] != size for i, size in enumerate(sizes) if i != dimension):
                return sizes[dimension]
    return count


def _pays(rows: int, n: int, count: int) -> bool:
    """Whether finding the first `count` of n elements by insertion is faster than merge sort, by estimates of time."""
    inserting = rows * (count * count / 2 + (n - count)) * 1.5
    merging = (rows * n * 6 + 3000) * math.log2(max(n, 2))
    return inserting < merging


def _insertion_sort(b: Emitter, op: IrOp, dimension: int, count: int) -> list[IrValue]:
    """Emits the sort. Returns the first `count` elements of its results along `dimension`. Shapes must be static."""
    rows = rows_of(b, op, dimension)
    # The array has one dimension, because the compiler drops dimensions of size 1 outside the loop, but not inside.
    type_ = ir.RankedTensorType.get([known(rows.size[0]) * count], signless(32))
    (places,) = dispatch(b, [type_], lambda k: [_inserted(k, rows, type_, count)])
    return rows.in_order(b, b.reshape(places, [known(rows.size[0]), count]))


def _inserted(k: Kernel, rows: Rows, type_: ir.RankedTensorType, count: int) -> IrValue:
    """Emits the body of the kernel, which finds the elements that come first in each row.

    Returns an array with the indices of the first `count` elements of each row, in sorted order.
    """
    size = rows.size[0], count

    def insert(
        k: Kernel, row: RunTimeSize, kept: IrValue, place: RunTimeSize, end: int | RunTimeSize
    ) -> tuple[IrValue, ...]:
        """Inserts the index `place` into the first `end` indices that `kept` has for a row, which are sorted.

        Returns the new array, and the index that no longer fits into the first `end` entries.
        """

        def step(k: Kernel, i: RunTimeSize, kept: IrValue, left: IrValue) -> Sequence[IrValue]:
            at = k.linear_index(size, (row, i))
            first = rows.comes_first(k, row, place, k.index_at(kept, at))
            other = k.element(kept, at)
            return [k.put(k.select_scalar(first, left, other), kept, at), k.select_scalar(first, other, left)]

        return k.loop(0, end, 1, [kept, k.cast(place, signless(32))], step)

    def row_of(k: Kernel, row: RunTimeSize, kept: IrValue) -> Sequence[IrValue]:
        def fill(k: Kernel, place: RunTimeSize, kept: IrValue) -> Sequence[IrValue]:
            kept, left = insert(k, row, kept, place, place)
            return [k.put(left, kept, k.linear_index(size, (row, place)))]

        def replace(k: Kernel, place: RunTimeSize, kept: IrValue) -> Sequence[IrValue]:
            last = k.index_at(kept, k.linear_index(size, (row, count - 1)))
            first = rows.comes_first(k, row, place, last)
            return k.if_(first, [type_], lambda k: insert(k, row, kept, place, count)[:1], lambda k: [kept])

        return k.loop(count, rows.size[1], 1, k.loop(0, count, 1, [kept], fill), replace)

    return k.loop(0, rows.size[0], 1, [k.empty(type_)], row_of)[0]
