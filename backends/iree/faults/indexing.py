"""gather, scatter and dynamic slices: indices in range and of types that IREE reads right; copied operands."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.backends.iree.emitter import Emitter, is_in_loop, is_unsigned, legalize, signless
from tiduc.backends.iree.fast.scatter_loops import by_loops, pays
from tiduc.backends.iree.fast.single_updates import single_update
from tiduc.backends.iree.faults.updates_in_place import copied, own
from tiduc.dialect.graph import captured
from tiduc.dialect.types import element, is_open, shape, with_shape


def clamped(b: Emitter, x: Any, limits: Sequence[int], dimension: int | None) -> Any:
    """Indices clamped to [0, limit], a limit for each entry along the dimension; as i32, or i64 if needed."""
    type_ = element(x)
    highest = 2 ** (type_.width - (not type_.is_unsigned)) - 1
    along = [-1 if i == dimension else 1 for i in range(len(shape(x)))]
    table = np.broadcast_to(np.reshape([min(n, highest) for n in limits], along), shape(x))
    inside = b.clamp(b.constant(0, x), x, b.constant(table if table.ndim else table.item(), x))
    return b.convert(inside, signless(32 if max(limits, default=0) < 2**31 else 64))


@legalize("stablehlo.dynamic_slice", "stablehlo.dynamic_update_slice")
def dynamic_slice(b: Emitter, op: Any) -> Sequence[Any] | None:
    """Misreads starts that are unsigned or narrower than 32 bits; emits starts of i32 or i64.

    `dynamic_update_slice` has further faults. An integer update goes behind a barrier: between nested loops,
    the compiler makes it a scalar, and then an array again where none is allowed. An update of an array with
    other readers goes behind a barrier: the compiler would compute the update right into its place, perhaps
    before they read. An update that is a part of the array itself is copied first: IREE's devices do not copy
    between places that overlap. An array that others keep is copied.
    """
    first = 1
    if op.name == "stablehlo.dynamic_update_slice":
        first = 2
        op.operands[0] = own(b, op, op.operands[0])
        if _is_part(op):
            op.operands[1] = b.barrier(copied(b, op.operands[1]))[0]
        elif _is_integer(op.operands[1]) or _is_read_late(op):
            op.operands[1] = b.barrier(op.operands[1])[0]
    for i in range(first, len(op.operands)):
        start = op.operands[i]
        type_ = element(start)
        if type_.width >= 32 and not type_.is_unsigned:
            continue
        if type_.width == 64:
            start = b.minimum(start, b.constant(2**62, start))
        start = b.convert(start, signless(64 if type_.width >= 32 else 32))
        # Behind a barrier: otherwise the host reads the narrow number as unsigned, and converts that.
        op.operands[i] = start if type_.is_unsigned else b.barrier(start)[0]
    return None


def _is_read_late(op: Any) -> bool:
    """Whether the array has readers that the update does not depend on, or had others in earlier updates."""
    x, update = op.operands[0], op.operands[1]
    others = {use.owner.operation for use in x.uses} - {op.operation}
    if others and others - _makers(update):
        return True
    while isinstance(x.owner, ir.Operation | ir.OpView) and x.owner.name == "stablehlo.dynamic_update_slice":
        x = x.owner.operands[0]
        if len(list(x.uses)) > 1:
            return True
    return False


def _is_part(op: Any) -> bool:
    """Whether the update is a slice, in any shape, of the array that it updates (earlier updates disregarded)."""
    x, update = op.operands[0], _seen(op.operands[1])
    if is_open(update.type) or isinstance(update.owner, ir.Block) or update.owner.name not in _SLICES:
        return False
    return bool(_before(update.owner.operands[0]) == _before(x))


_SLICES = "stablehlo.dynamic_slice", "stablehlo.slice"
_UPDATES = "stablehlo.dynamic_update_slice", "stablehlo.scatter"


def _seen(x: Any) -> Any:
    """The value behind reshapes and barriers."""
    while not isinstance(x.owner, ir.Block) and x.owner.name in (
        "stablehlo.reshape",
        "stablehlo.optimization_barrier",
    ):
        x = x.owner.operands[x.result_number if x.owner.name == "stablehlo.optimization_barrier" else 0]
    return x


def _before(x: Any) -> Any:
    """The array that x was before updates, which happen in place."""
    x = _seen(x)
    while not isinstance(x.owner, ir.Block) and x.owner.name in _UPDATES:
        x = _seen(x.owner.operands[0])
    return x


def _makers(x: Any) -> set[Any]:
    """The ops in a value's block on which it depends."""
    if isinstance(x.owner, ir.Block):
        return set()
    block = x.owner.operation.block
    owners = [y.owner for y in _behind(x, block)]
    return {
        owner.operation
        for owner in owners
        if not isinstance(owner, ir.Block) and owner.operation.block == block
    }


def _behind(x: Any, block: Any) -> Iterator[Any]:
    """Yields a value and the values it depends on, through the ops of one block."""
    waiting, found = [x], set[Any]()
    while waiting:
        y = waiting.pop()
        yield y
        owner = y.owner
        if (
            not isinstance(owner, ir.Block)
            and owner.operation.block == block
            and owner.operation not in found
        ):
            found.add(owner.operation)
            waiting += [*owner.operation.operands, *captured(owner.operation)]


def _is_integer(x: Any) -> bool:
    """Whether a value is a reshaped scalar integer."""
    if not isinstance(x.owner, ir.Operation | ir.OpView) or x.owner.operation.name != "stablehlo.reshape":
        return False
    of = x.owner.operation.operands[0].type
    return not of.rank and isinstance(of.element_type, ir.IntegerType)


@legalize("stablehlo.gather")
def gather(b: Emitter, op: Any) -> Sequence[Any] | None:
    """Gathers of full rows do not clamp indices, and misread unsigned ones; clamps the indices first.

    A gather from constant places goes behind a barrier. IREE fuses it with the op that computes the array, and if the
    array has other readers, the fused code also writes the array at these places only.
    """
    _vectors_last(b, op)
    if _has_steps(op.operands[0]) or _has_constant_places(op):
        op.operands[0] = b.barrier(op.operands[0])[0]
    x, indices = op.operands
    d = hlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
    sizes = list(op.attributes["slice_sizes"])
    limits = [shape(x)[i] - sizes[i] for i in d.start_index_map]
    if not limits or min(limits) < 0 or not np.prod(shape(indices)):
        return None
    dimension = d.index_vector_dim if d.index_vector_dim < len(shape(indices)) else None
    return b.again(op, {1: clamped(b, indices, limits, dimension)})


def _has_constant_places(op: Any) -> bool:
    """Whether a gather takes the same elements along some dimension whatever the program's arguments are."""
    x, indices = op.operands
    if isinstance(x.owner, ir.Block) or x.owner.name == "stablehlo.constant":
        return False
    d, block = hlo.GatherDimensionNumbers(op.attributes["dimension_numbers"]), op.operation.block
    given = {*d.operand_batching_dims, *(() if _is_constant(indices, block) else d.start_index_map)}
    taken = zip(shape(x), op.attributes["slice_sizes"], strict=True)
    return any(size > 1 == count and i not in given for i, (size, count) in enumerate(taken))


def _is_constant(x: Any, block: Any) -> bool:
    """Whether ops of a block compute a value from constants alone."""
    owners = [y.owner for y in _behind(x, block)]
    return all(
        not isinstance(owner, ir.Block)
        and (owner.operation.block == block or owner.name == "stablehlo.constant")
        for owner in owners
    )


def _has_steps(x: Any) -> bool:
    """Whether an array is a strided slice, or part of one: on CPUs, a gather from it does not compile."""
    while not isinstance(x.owner, ir.Block) and x.owner.name in ("stablehlo.reshape", "stablehlo.slice"):
        if x.owner.name == "stablehlo.slice" and set(x.owner.attributes["strides"]) != {1}:
            return True
        x = x.owner.operands[0]
    return False


def _vectors_last(b: Emitter, op: Any) -> None:
    """Moves the index vectors of a batched gather to the last dimension, in place.

    IREE numbers the batch dimensions as if the index vectors were last, and gathers from a wrong batch.
    """
    d, indices = hlo.GatherDimensionNumbers(op.attributes["dimension_numbers"]), op.operands[1]
    vector, rank = d.index_vector_dim, len(shape(indices))
    if not d.operand_batching_dims or vector >= rank - 1:
        return
    op.operands[1] = b.transpose(indices, [*(i for i in range(rank) if i != vector), vector])
    batches = [i - (i > vector) for i in d.start_indices_batching_dims]
    op.attributes["dimension_numbers"] = hlo.GatherDimensionNumbers.get(
        d.offset_dims, d.collapsed_slice_dims, d.operand_batching_dims, batches, d.start_index_map, rank - 1
    )


@legalize("stablehlo.scatter")
def scatter(b: Emitter, op: Any) -> Sequence[Any] | None:
    """Out-of-range updates write out of bounds; windows and several operands do not compile. Scatters rows.

    Each operand becomes an array of rows, and each update goes to one row: a row spans all trailing
    dimensions that windows cover whole. An out-of-range update goes to a spare row, which is dropped in the
    end. Several operands take a loop over the elements. On CPUs, the scatter is one dispatch where that pays.
    On GPUs, many updates are scattered in parts. An operand that others keep is copied. In a loop on CPUs, a
    single update becomes a `dynamic_update_slice`; elsewhere the host would have to wait for its index.
    """
    count = len(op.results)
    operands, indices, updates = list(op.operands)[:count], op.operands[count], list(op.operands)[count + 1 :]
    if not np.prod(shape(updates[0])):
        return operands
    single = single_update(b, op) if b.cpu and is_in_loop(op) else None
    if single is not None:
        return single
    d = hlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    places = _Places(d, shape(operands[0]), shape(updates[0]))
    where = places.rows(b, indices)
    rows, width = places.count, places.width
    news = [b.reshape(b.transpose(u, places.order), [places.updates, width]) for u in updates]
    if pays(b, op, operands, news):
        made = by_loops(b, op, [b.reshape(x, [rows, width]) for x in operands], where, news)
        return [b.reshape(t, shape(x)) for t, x in zip(made, operands, strict=True)]
    tables = [_with_spare_row(b, b.reshape(own(b, op, x, anew=True), [rows, width])) for x in operands]
    if count > 1:
        tables = _one_by_one(b, op, tables, where, news)
    else:
        tables = [_in_parts(b, op, tables[0], where, news[0])]
    kept = [b.slice(t, [0, 0], [rows, width], [1, 1]) for t in tables]
    return [b.reshape(t, shape(x)) for t, x in zip(kept, operands, strict=True)]


class _Places:
    """The rows of an operand to which the updates of a scatter go."""

    def __init__(self, d: Any, sizes: list[int], updates: list[int]) -> None:
        self.d, self.sizes, self.shape = d, sizes, updates
        fixed = (*d.inserted_window_dims, *d.input_batching_dims)
        self.windowed = dict(
            zip([i for i in range(len(sizes)) if i not in fixed], d.update_window_dims, strict=True)
        )
        window = [updates[self.windowed[i]] if i in self.windowed else 1 for i in range(len(sizes))]
        split = len(sizes)
        while split and self._whole(split - 1, window):
            split -= 1
        self.split = split
        row = [self.windowed[i] for i in range(split, len(sizes))]
        self.order = [j for j in range(len(updates)) if j not in row] + row
        self.leading = [updates[j] for j in self.order[: len(updates) - len(row)]]
        self.count = int(np.prod(sizes[:split], dtype=np.int64))
        self.width = int(np.prod(sizes[split:], dtype=np.int64))
        self.updates = int(np.prod(self.leading, dtype=np.int64))

    def _whole(self, i: int, window: list[int]) -> bool:
        return (
            i in self.windowed
            and window[i] == self.sizes[i]
            and i not in self.d.scattered_dims_to_operand_dims
        )

    def rows(self, b: Emitter, indices: Any) -> Any:
        """The row of each update, as a matrix of one column; `count` for an update out of range."""
        d, type_ = self.d, ir.RankedTensorType.get(self.leading, signless(64))
        kept = [j for j in range(len(self.shape)) if j in self.order[: len(self.leading)]]
        position = {j: n for n, j in enumerate(kept)}
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
            inside = b.and_(
                b.compare(at, b.constant(0, at), "GE"), b.compare(at, b.constant(self.sizes[i], at), "LT")
            )
            valid = inside if valid is None else b.and_(valid, inside)
            row = b.add(b.multiply(row, b.constant(self.sizes[i], row)), at)
        if valid is not None:
            row = b.select(valid, row, b.constant(self.count, row))
        narrow = signless(32 if self.count < 2**31 else 64)
        return b.reshape(b.convert(row, narrow), [self.updates, 1])

    def _component(self, b: Emitter, indices: Any, k: int) -> Any:
        """Entry k of the index vectors, as i64; out of range where the original entry is."""
        d, sizes = self.d, shape(indices)
        if d.index_vector_dim < len(sizes):
            start, limit = [0] * len(sizes), list(sizes)
            start[d.index_vector_dim], limit[d.index_vector_dim] = k, k + 1
            indices = b.slice(indices, start, limit, [1] * len(sizes))
            indices = b.reshape(indices, [n for i, n in enumerate(sizes) if i != d.index_vector_dim])
        if is_unsigned(indices) and element(indices).width == 64:
            indices = b.minimum(indices, b.constant(2**62, indices))
        # The clamp keeps indices out of range, and leaves room for the offsets within a window.
        at = b.convert(indices, signless(64))
        return b.clamp(b.constant(-(2**40), at), at, b.constant(2**40, at))


def _with_spare_row(b: Emitter, x: Any) -> Any:
    """x with one more row, of zeros, for the updates to be dropped."""
    spare = b.constant(0, with_shape(x.type, [1, shape(x)[1]]))
    return b.concatenate([x, spare], 0)


STEPS = 2**15
"""The most updates that one GPU thread gets: Mesa's software device ends its loops after 65,535."""


def _in_parts(b: Emitter, op: Any, table: Any, where: Any, new: Any) -> Any:
    """Scatters rows; on GPUs, `STEPS` at a time, one part after the other."""
    count, width = shape(new)
    if b.cpu or count <= STEPS:
        return scattered(b, op, table, where, new)
    for start in range(0, count, STEPS):
        end = min(start + STEPS, count)
        indices, rows = (
            b.slice(x, [start, 0], [end, size], [1, 1]) for x, size in ((where, 1), (new, width))
        )
        table = scattered(b, op, table, indices, rows)
    return table


def scattered(b: Emitter, op: Any, table: Any, where: Any, new: Any) -> Any:
    """Scatters rows, which IREE supports."""
    numbers = hlo.ScatterDimensionNumbers.get([1], [0], [], [], [0], 1)
    attributes = {name: op.attributes[name] for name in op.attributes}
    attributes["scatter_dimension_numbers"] = numbers
    # Out-of-range updates now share one row, so the indices may be neither sorted nor unique.
    attributes |= {name: ir.BoolAttr.get(False) for name in ("indices_are_sorted", "unique_indices")}
    types = [element(table)] * 2
    if list(new.type.shape) == [1, 1]:
        (new,) = b.barrier(new)  # one element that is part of an array does not compile otherwise

    def fill(b: Emitter, *arguments: Any) -> Sequence[Any]:
        return b.inlined(op.regions[0], arguments)

    body = b.region([ir.RankedTensorType.get([], t) for t in types], fill)
    return b.emit_all("stablehlo.scatter", (table, where, new), (table.type,), attributes, [body])[0]


def _one_by_one(b: Emitter, op: Any, tables: list[Any], where: Any, news: list[Any]) -> list[Any]:
    """Scatters rows of several operands, by a loop over the elements of the updates."""
    (count, width), scalar = shape(news[0]), ir.RankedTensorType.get([], element(where))

    def body(b: Emitter, i: Any, *tables: Any) -> Sequence[Any]:
        n = b.constant(width, i)
        k, j = b.emit("stablehlo.divide", (i, n), i.type), b.remainder(i, n)
        zero = b.constant(0, i)
        row = b.convert(b.reshape(b.dynamic_slice(where, (k, zero), [1, 1]), []), element(i))
        old = [b.reshape(b.dynamic_slice(t, (row, j), [1, 1]), []) for t in tables]
        new = [b.reshape(b.dynamic_slice(u, (k, j), [1, 1]), []) for u in news]
        combined = b.inlined(op.regions[0], [*old, *new])
        pairs = zip(tables, combined, strict=True)
        return [b.dynamic_update_slice(t, b.reshape(v, [1, 1]), (row, j)) for t, v in pairs]

    assert scalar is not None
    return list(b.for_(count * width, tables, body))
