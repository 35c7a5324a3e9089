"""Computes scatters by loops, on CPUs. One dispatch copies the array and applies the updates in order.

IREE's own scatter writes out of bounds if an index is out of range. Here, the loop over the elements of a row has trip
count 0 if the row is out of range. The dispatch computes the number of a row right before it updates the row, so no
array of row numbers is stored.

A scatter in a loop may have a single update, as in JAX's x.at[i].set(u). Then a slice is read, combined with the update
and written back, without a copy of the array:

    %y = scatter %x, %i, %u { add }
    ->  %s = dynamic_slice %x, %i;  %t = add %s, %u;  %y = dynamic_update_slice %x, %t, %i

If the index is out of range, the slice is written back unchanged. This rewrite is for CPUs only, because with a GPU the
host would have to wait for the index.
"""

import math
from collections.abc import Sequence

from torch_mlir import ir

from tiduc.backends.iree.emit.arrays import has_dynamic_shape
from tiduc.backends.iree.emit.emitter import ON_CPUS, Emitter, is_in_loop, legalize, signless
from tiduc.backends.iree.emit.kernels import Kernel, can_apply_body, computed_outside, dispatch
from tiduc.backends.iree.emit.places import Places
from tiduc.backends.iree.emit.sizes import RunTimeSize, SizeLike, known
from tiduc.backends.iree.fault import slow
from tiduc.dialect.graph.graph import operations
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.ops.traits import ELEMENTWISE
from tiduc.dialect.shapes.types import element, shape, with_element


@legalize("stablehlo.scatter", where=ON_CPUS)
@slow(
    "In a loop, a scatter of one update copies the array to append a spare row; tiduc updates a slice.",
    "flags.py: recurrence",
)
@slow(
    "A scatter needs a spare row for updates out of range, and copies the array; tiduc emits loops in one dispatch.",
    "flags.py: look-up",
)
def scatter(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Computes a single update in a loop by `dynamic_update_slice`, and other scatters by loops in one dispatch.

    Returns None for dynamic shapes, and if kernels do not support the op's body.
    """
    if has_dynamic_shape(op):
        return None
    count, places = len(op.results), Places(b, op)
    if is_in_loop(op) and is_single(op, places):
        return [_one_slice(b, op, places)]
    xs = list(op.operands)[:count]
    if not can_apply_body(op, 2):
        return None
    news = places.updates_of(b, list(op.operands)[count + 1 :])
    indices = op.operands[count]
    if element(indices) != signless(32):  # a kernel extends i32 itself, so that no array of i64 is stored
        indices = places.indices(b, indices)
    updated = _by_loops(b, op, places, indices, news)
    return [b.reshape(t, shape(x)) for t, x in zip(updated, xs, strict=True)]


def is_single(op: IrOp, places: Places) -> bool:
    """Whether a scatter updates one slice of one array, and its body only has elementwise ops on the two elements."""
    body = op.regions[0].blocks[0]
    *ops, end = operations(body)
    known = {*body.arguments, *(y for inner in ops for y in inner.results)}
    alike = all(inner.name in ELEMENTWISE and known.issuperset(inner.operands) for inner in ops)
    return len(op.results) == 1 and places.is_one_slice and alike and known.issuperset(end.operands)


def _one_slice(b: Emitter, op: IrOp, places: Places) -> IrValue:
    """Computes a scatter for which `is_single` is true. Its slice is entirely in range, or entirely out of range."""
    x, indices, update = op.operands
    window = [known(n) for n in places.window]
    at, inside = [b.constant(0, ir.RankedTensorType.get([], signless(64)))] * len(places.sizes), None
    starts = b.reshape(places.indices(b, indices), [len(places.indexed)])
    for k, i in enumerate(places.indexed):
        start = b.reshape(b.cut(starts, 0, k, k + 1), [])
        if element(indices).width < 32:
            (start,) = b.barrier(
                start
            )  # without the barrier, the host would read the narrow integer and zero-extend it
        at[i] = b.clamp(b.constant(0, start), start, b.constant(known(places.sizes[i]) - 1, start))
        same = b.compare(at[i], start, "EQ")
        inside = same if inside is None else b.and_(inside, same)
    # A single element becomes a scalar, because IREE cannot broadcast a scalar predicate to an array in kernels.
    sizes = [] if math.prod(window) == 1 else window
    old, new = b.reshape(b.dynamic_slice(x, at, window), sizes), b.reshape(update, sizes)
    assert inside is not None, "a scatter has an index"
    new = b.select(inside, _combined(b, op.regions[0].blocks[0], old, new), old)
    return b.dynamic_update_slice(x, b.reshape(new, window), at)


def _combined(b: Emitter, body: ir.Block, old: IrValue, new: IrValue) -> IrValue:
    """Applies a body of elementwise ops on two scalars to each pair of elements of two arrays."""
    values = dict(zip(body.arguments, (old, new), strict=True))
    *ops, end = operations(body)
    for inner in ops:
        type_ = with_element(old.type, element(inner.results[0]))
        operands = [values[x] for x in inner.operands]
        (values[inner.results[0]],) = b.clone(inner, dict(enumerate(operands)), [type_])
    return values[end.operands[0]]


def _by_loops(
    b: Emitter, op: IrOp, places: Places, indices: IrValue, news: Sequence[IrValue]
) -> list[IrValue]:
    """Computes a scatter by loops in one dispatch. Returns the updated arrays, flattened to one dimension.

    `news` has the updates as matrices, from `Places.updates_of`.
    """
    xs, width = list(op.operands)[: len(news)], places.width
    # The arrays of the dispatch have one dimension, because the compiler drops dimensions of size 1.
    olds, updates = (
        [b.reshape(computed_outside(b, x), [math.prod(shape(x))]) for x in of] for of in (xs, news)
    )
    indices = computed_outside(b, indices)

    def fill(k: Kernel) -> Sequence[IrValue]:
        def update(k: Kernel, place: Sequence[SizeLike], *outs: IrValue) -> Sequence[IrValue]:
            row, is_inside = places.row(k, place, indices)
            number = k.linear_index(places.leading, place)

            def combine(k: Kernel, column: RunTimeSize, *outs: IrValue) -> Sequence[IrValue]:
                at, new = (k.linear_index([places.count, width], (i, column)) for i in (row, number))
                pairs = [*(k.element(x, at) for x in outs), *(k.element(u, new) for u in updates)]
                values = k.inlined_on_scalars(op.regions[0], pairs)
                return [k.put(v, x, at) for v, x in zip(values, outs, strict=True)]

            return k.loop(0, k.select_scalar(is_inside, width, 0), 1, outs, combine)

        return k.nest(places.leading, [k.filled(k.empty(x.type), x) for x in olds], update)

    return list(dispatch(b, [x.type for x in olds], fill))
