"""`Places`: describes a scatter as updates of whole rows of a matrix."""

import math
from collections.abc import Mapping, Sequence

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.backends.iree.emit import arrays
from tiduc.backends.iree.emit.emitter import Emitter, signless
from tiduc.backends.iree.emit.kernels import Kernel
from tiduc.backends.iree.emit.sizes import RunTimeSize, SizeLike, are_known, read
from tiduc.dialect.ops.ir_types import IrOp, IrValue


class Places:
    """A scatter, with its operand seen as a matrix of `count` rows of `width` elements. Sizes may be dynamic.

    A row has the operand's dimensions from `split` on, which every update covers in full. There are `updates` updates
    of one row each; `leading` has the sizes of the dimensions that enumerate them.
    """

    def __init__(self, b: Emitter, scatter: IrOp) -> None:
        d = hlo.ScatterDimensionNumbers(scatter.attributes["scatter_dimension_numbers"])
        sizes, updates = arrays.sizes_of(b, scatter.operands[0]), arrays.sizes_of(b, scatter.operands[-1])
        self.d, self.sizes, self.shape = d, sizes, updates
        self.indexed = list(d.scattered_dims_to_operand_dims)
        fixed = (*d.inserted_window_dims, *d.input_batching_dims)
        self.windowed = dict(
            zip([i for i in range(len(sizes)) if i not in fixed], d.update_window_dims, strict=True)
        )
        self.window = [updates[self.windowed[i]] if i in self.windowed else 1 for i in range(len(sizes))]
        split = len(sizes)
        while split and self._covers(split - 1):
            split -= 1
        self.split = split
        row = [self.windowed[i] for i in range(split, len(sizes))]
        self.order = [j for j in range(len(updates)) if j not in row] + row
        self.leading = [updates[j] for j in self.order[: len(updates) - len(row)]]
        self.count = math.prod(sizes[:split])
        self.width = math.prod(sizes[split:])
        self.updates = math.prod(self.leading)

    def updates_of(self, b: Emitter, updates: Sequence[IrValue]) -> list[IrValue]:
        """The scatter's update operands as matrices, in which each row is one update."""
        return [arrays.in_shape(b, b.transpose(u, self.order), [self.updates, self.width]) for u in updates]

    @property
    def is_one_slice(self) -> bool:
        """Whether the scatter updates a single slice, whose size is 1 in indexed dimensions and full in all others."""
        size = [1 if i in self.indexed else n for i, n in enumerate(self.sizes)]
        if not are_known(self.shape) or not are_known(size):
            return False
        count = math.prod(size)
        return bool(self.indexed) and self.window == size and math.prod(self.shape) == count and count > 0

    def _covers(self, i: int) -> bool:
        return i in self.windowed and self.window[i] == self.sizes[i] and i not in self.indexed

    def rows(self, b: Emitter, indices: IrValue) -> IrValue:
        """The row number of each update, as a matrix with one column.

        If an update is out of range, its row number is `count`.
        """
        kind = signless(64 if isinstance(self.count, int) and self.count >= 2**31 else 32)

        def fill(k: Kernel, place: Sequence[RunTimeSize], indices: IrValue) -> IrValue:
            row, is_inside = self.row(k, place, indices)
            return k.cast(k.select_scalar(is_inside, row, self.count), kind)

        where = arrays.computed(b, self.leading, kind, [self.indices(b, indices)], fill)
        return arrays.in_shape(b, where, [self.updates, 1])

    def indices(self, b: Emitter, indices: IrValue) -> IrValue:
        """The scatter's indices as i64, for `row`. Large indices are clamped, but remain out of range."""
        return arrays.wide(b, indices, max([2**31 - 1, *(n for n in self.sizes if isinstance(n, int))]))

    def row(self, k: Kernel, place: Sequence[SizeLike], indices: IrValue) -> tuple[SizeLike, IrValue]:
        """Emits the row number of an update, and the condition that the update is in range.

        `place` has the update's indices along the `leading` dimensions. `indices` comes from the method `indices`.
        """
        d, sizes = self.d, self.sizes[: self.split]
        position = {j: n for n, j in enumerate(self.order[: len(self.leading)])}
        batch = [place[n] for j, n in position.items() if j not in d.update_window_dims]
        batching = dict(zip(d.input_batching_dims, d.scatter_indices_batching_dims, strict=True))
        at = starts(k, indices, d.index_vector_dim, self.indexed, batching, batch, len(sizes))
        row: SizeLike = 0
        for i, n in enumerate(sizes):
            if i in self.windowed:
                at[i] += place[position[self.windowed[i]]]
            row = row * n + at[i]
        return row, arrays.is_inside(k, at, sizes)


def starts(
    k: Kernel,
    indices: IrValue,
    vector: int,
    entries: Sequence[int],
    batching: Mapping[int, int],
    batch: Sequence[SizeLike],
    rank: int,
) -> list[SizeLike]:
    """The start indices of a slice of a gather or scatter, in the first `rank` dimensions of the operand.

    `indices` has a vector for each slice, along its dimension `vector`. `batch` has the position of the slice's vector
    in the other dimensions of `indices`. Entry k of the vector is the start in dimension `entries[k]` of the operand.
    `batching` maps the operand's batching dimensions to dimensions of `indices`. In all other dimensions, the slice
    starts at 0.
    """

    def start(i: int) -> SizeLike:
        if i in batching:
            return batch[batching[i] - (batching[i] > vector)]
        if i not in entries:
            return 0
        at = list(batch)
        if vector < len(indices.type.shape):
            at.insert(vector, list(entries).index(i))
        return read(k.cast(k.element(indices, *at), ir.IndexType.get()))

    return [start(i) for i in range(rank)]
