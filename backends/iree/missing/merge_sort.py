"""Merge sort: O(n log n) and stable, for any comparator and any number of arrays.

    indices = 0 1 2 ... in each row
    sorted runs of 1, 2, 4, ... indices are merged in pairs: one dispatch for each length writes a new array of indices
    the results are the operands' elements at these indices; if an operand is an iota, the indices are its elements

IREE's own sort takes O(n^2) exchanges, keeps a row on a stack of 32 KiB, and is not stable.
"""

from collections.abc import Sequence

from torch_mlir import ir

from tiduc.backends.iree.emit import arrays
from tiduc.backends.iree.emit.emitter import Emitter, signless
from tiduc.backends.iree.emit.kernels import Kernel, dispatch
from tiduc.backends.iree.emit.rows import Rows, places_along, rows_of
from tiduc.backends.iree.emit.sizes import RunTimeSize, read, smaller
from tiduc.dialect.ops.ir_types import IrOp, IrValue


def merge_sort(b: Emitter, op: IrOp, dimension: int) -> list[IrValue]:
    """Emits a merge sort of the operands of `op` along a dimension. Returns the sorted operands."""
    rows = rows_of(b, op, dimension)
    i32 = signless(32)
    places = places_along(b, rows.stored[0], 1)
    scalar = ir.RankedTensorType.get([], i32)
    n = arrays.scalar_of(b, rows.size[1])

    def merged(b: Emitter, width: IrValue, places: IrValue) -> Sequence[IrValue]:
        (longer,) = dispatch(b, [places.type], lambda k: [_merged(k, rows, width, places)], rows.size)
        return [b.add(width, width), longer]

    _, places = b.while_(
        [b.constant(1, scalar), places], lambda b, width, _: b.compare(width, n, "LT"), merged
    )
    return rows.in_order(b, places)


def _merged(k: Kernel, rows: Rows, width: IrValue, places: IrValue) -> IrValue:
    """Merges sorted runs of `width` indices pairwise into runs of twice the length. Returns the new indices."""
    (count, n), length = rows.size, read(k.index_at(width))

    def row_of(k: Kernel, row: RunTimeSize, out: IrValue) -> Sequence[IrValue]:
        return k.loop(0, n, length + length, [out], lambda k, start, out: [pair(k, row, start, out)])

    def pair(k: Kernel, row: RunTimeSize, start: RunTimeSize, out: IrValue) -> IrValue:
        """Merges the runs at `start` and `start + length`. Each iteration takes the lesser of their next elements."""
        middle, end = smaller(start + length, n), smaller(start + length + length, n)

        def take(k: Kernel, at: RunTimeSize, out: IrValue, i: IrValue, j: IrValue) -> Sequence[IrValue]:
            # If a run is exhausted, its last element is read nevertheless, because a branch would take longer.
            heads = smaller(read(i), middle - 1), smaller(read(j), end - 1)
            left, right = (k.element(places, row, head) for head in heads)
            x, y = (k.index_at(places, row, head) for head in heads)
            right_is_first = k.all([k.below(j, end), rows.comes_first(k, row, y, x)])
            is_left = k.all([k.below(i, middle), k.not_(right_is_first)])
            out = k.put(k.select_scalar(is_left, left, right), out, row, at)
            return [out, k.select_scalar(is_left, read(i) + 1, i), k.select_scalar(is_left, j, read(j) + 1)]

        return k.loop(start, end, 1, [out, k.index(start), k.index(middle)], take)[0]

    return k.loop(0, count, 1, [k.empty(places.type, rows.size)], row_of)[0]
