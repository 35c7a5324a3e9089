"""scatter, as a scatter of rows that drops updates out of range."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.backends.iree.emitter import Emitter, is_unsigned, legalize, signless
from tiduc.backends.iree.fault import missing, wrong
from tiduc.backends.iree.missing.dynamic.arrays import number, part, scalar_of
from tiduc.backends.iree.missing.dynamic.sizes import smaller
from tiduc.dialect.types import element, shape, with_shape


@legalize("stablehlo.scatter")
@wrong(
    "Out-of-range updates write out of bounds; sends them to a spare row.",
    "scatter_out_of_range",
    untested="writes out of bounds",
)
@missing("Windows do not compile; scatters rows.", "scatter_window")
@missing("Several operands do not compile; loops over the elements.", "scatter_two_operands")
@wrong(
    "On GPUs, one thread applies all updates, and may end after 65,535; scatters many updates in parts.",
    "vulkan/counts",
)
def scatter(b: Emitter, op: Any) -> Sequence[Any] | None:
    """A scatter of rows.

    Each operand becomes an array of rows, and each update goes to one row: a row spans all trailing
    dimensions that windows cover whole. An out-of-range update goes to a spare row, which is dropped in the
    end.
    """
    count = len(op.results)
    operands, indices, updates = list(op.operands)[:count], op.operands[count], list(op.operands)[count + 1 :]
    if not np.prod(shape(updates[0])):
        return operands
    places = Places.of(op)
    where, news = places.rows(b, indices), places.updates_of(b, updates)
    rows, width = places.count, places.width
    tables = [_with_spare_row(b, b.reshape(x, [rows, width])) for x in operands]
    if count > 1:
        tables = _one_by_one(b, op, tables, where, news)
    else:
        tables = [in_parts(b, op, tables[0], where, news[0], places.updates, width)]
    kept = [b.cut(t, 0, 0, rows) for t in tables]
    return [b.reshape(t, shape(x)) for t, x in zip(kept, operands, strict=True)]


class Places:
    """The rows of an operand to which the updates of a scatter go."""

    def __init__(self, d: Any, sizes: list[Any], updates: list[Any]) -> None:
        """The rows for an operand and updates of these sizes, which need not be known at compile time."""
        self.d, self.sizes, self.shape = d, sizes, updates
        fixed = (*d.inserted_window_dims, *d.input_batching_dims)
        self.windowed = dict(
            zip([i for i in range(len(sizes)) if i not in fixed], d.update_window_dims, strict=True)
        )
        self.window = [updates[self.windowed[i]] if i in self.windowed else 1 for i in range(len(sizes))]
        split = len(sizes)
        while split and self._whole(split - 1):
            split -= 1
        self.split = split
        row = [self.windowed[i] for i in range(split, len(sizes))]
        self.order = [j for j in range(len(updates)) if j not in row] + row
        self.leading = [updates[j] for j in self.order[: len(updates) - len(row)]]
        self.count = math.prod(sizes[:split])
        self.width = math.prod(sizes[split:])
        self.updates = math.prod(self.leading)

    @classmethod
    def of(cls, scatter: Any) -> "Places":
        """The rows to which the updates of a scatter of static shapes go."""
        d = hlo.ScatterDimensionNumbers(scatter.attributes["scatter_dimension_numbers"])
        return cls(d, shape(scatter.operands[0]), shape(scatter.operands[-1]))

    def updates_of(self, b: Emitter, updates: Sequence[Any]) -> list[Any]:
        """The updates as matrices with one row for each row of the operand that they change."""
        return [b.reshape(b.transpose(u, self.order), [self.updates, self.width]) for u in updates]

    @property
    def is_one_slice(self) -> bool:
        """Whether there is one update, which has size 1 in indexed dimensions and covers the others whole."""
        indexed = list(self.d.scattered_dims_to_operand_dims)
        size = [1 if i in indexed else n for i, n in enumerate(self.sizes)]
        return bool(indexed) and self.window == size and math.prod(self.shape) == math.prod(size) > 0

    def starts(self, b: Emitter, indices: Any) -> dict[int, Any]:
        """The starts of the only update's window, as scalars of i64, by indexed dimension."""
        indexed = enumerate(self.d.scattered_dims_to_operand_dims)
        return {i: b.reshape(self._component(b, indices, k), []) for k, i in indexed}

    def _whole(self, i: int) -> bool:
        return (
            i in self.windowed
            and self.window[i] == self.sizes[i]
            and i not in self.d.scattered_dims_to_operand_dims
        )

    def rows(self, b: Emitter, indices: Any) -> Any:
        """The row of each update, as a matrix of one column; `count` for an update out of range."""
        d, type_ = self.d, ir.RankedTensorType.get(self.leading, signless(64))
        position = {j: n for n, j in enumerate(self.order[: len(self.leading)])}
        free = [j for j in range(len(self.shape)) if j not in d.update_window_dims]
        of_indices = [i for i in range(len(shape(indices))) if i != d.index_vector_dim]
        row, valid = b.constant(0, type_), None
        for i in range(self.split):
            at = b.constant(0, type_)
            if i in d.scattered_dims_to_operand_dims:
                k = list(d.scattered_dims_to_operand_dims).index(i)
                start = self._component(b, indices, k)
                at = b.broadcast_in_dim(start, [position[j] for j in free], type_)
            elif i in d.input_batching_dims:
                k = d.scatter_indices_batching_dims[list(d.input_batching_dims).index(i)]
                at = b.iota(position[free[of_indices.index(k)]], type_)
            if i in self.windowed:
                at = b.add(at, b.iota(position[self.windowed[i]], type_))
            inside = b.and_(b.compare(at, 0, "GE"), b.compare(at, self.sizes[i], "LT"))
            valid = inside if valid is None else b.and_(valid, inside)
            row = b.add(b.multiply(row, self.sizes[i]), at)
        if valid is not None:
            row = b.select(valid, row, self.count)
        narrow = signless(32 if self.count < 2**31 else 64)
        return b.reshape(b.convert(row, narrow), [self.updates, 1])

    def _component(self, b: Emitter, indices: Any, k: int) -> Any:
        """Entry k of the index vectors, as i64; out of range where the original entry is."""
        d, sizes = self.d, shape(indices)
        if d.index_vector_dim < len(sizes):
            indices = b.cut(indices, d.index_vector_dim, k, k + 1)
            indices = b.reshape(indices, [n for i, n in enumerate(sizes) if i != d.index_vector_dim])
        if is_unsigned(indices) and element(indices).width == 64:
            indices = b.minimum(indices, 2**62)
        # The clamp keeps indices out of range, and leaves room for the offsets within a window.
        at = b.convert(indices, signless(64))
        return b.clamp(-(2**40), at, 2**40)


def _with_spare_row(b: Emitter, x: Any) -> Any:
    """x with one more row, of zeros, for the updates to be dropped."""
    spare = b.constant(0, with_shape(x.type, [1, shape(x)[1]]))
    return b.concatenate([x, spare], 0)


STEPS = 2**15
"""The most updates that one GPU thread gets: Mesa's software device ends its loops after 65,535."""


def in_parts(b: Emitter, op: Any, table: Any, where: Any, news: Any, count: Any, width: int) -> Any:
    """Scatters `count` rows; on GPUs, `STEPS` at a time, one part after the other."""
    if b.cpu or isinstance(count, int) and count <= STEPS:
        return scattered(b, op, table, where, news)
    end, step = scalar_of(b, count), scalar_of(b, STEPS)

    def body(b: Emitter, start: Any, table: Any) -> Sequence[Any]:
        first = number(b, start)
        size = smaller(STEPS, count - first)
        indices, rows = (part(b, x, [first, 0], [size, n], [1, 1]) for x, n in ((where, 1), (news, width)))
        return [b.add(start, step), scattered(b, op, table, indices, rows)]

    zero = scalar_of(b, 0)
    return b.while_([zero, table], lambda b, start, _: b.compare(start, end, "LT"), body)[1]


def scattered(b: Emitter, op: Any, table: Any, where: Any, new: Any) -> Any:
    """Scatters rows, which IREE supports."""
    numbers = hlo.ScatterDimensionNumbers.get([1], [0], [], [], [0], 1)
    # Out-of-range updates now share one row, so the indices may be neither sorted nor unique.
    unordered = {name: ir.BoolAttr.get(False) for name in ("indices_are_sorted", "unique_indices")}
    if list(new.type.shape) == [1, 1]:
        (new,) = b.barrier(new)  # one element that is part of an array does not compile otherwise
    given = {"scatter_dimension_numbers": numbers, **unordered}
    return b.clone(op, {0: table, 1: where, 2: new}, [table.type], given)[0]


def _one_by_one(b: Emitter, op: Any, tables: list[Any], where: Any, news: list[Any]) -> list[Any]:
    """Scatters rows of several operands, by a loop over the elements of the updates."""
    count, width = shape(news[0])

    def body(b: Emitter, i: Any, *tables: Any) -> Sequence[Any]:
        k, j, zero = b.divide(i, width), b.remainder(i, width), b.constant(0, i)
        row = b.convert(b.reshape(b.dynamic_slice(where, (k, zero), [1, 1]), []), element(i))
        old = [b.reshape(b.dynamic_slice(t, (row, j), [1, 1]), []) for t in tables]
        new = [b.reshape(b.dynamic_slice(u, (k, j), [1, 1]), []) for u in news]
        combined = b.inlined(op.regions[0], [*old, *new])
        pairs = zip(tables, combined, strict=True)
        return [b.dynamic_update_slice(t, b.reshape(v, [1, 1]), (row, j)) for t, v in pairs]

    return list(b.for_(count * width, tables, body))
