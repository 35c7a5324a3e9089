"""Scatters of rows as loops, on CPUs: one dispatch that copies the array and applies the updates in order.

IREE's own scatter writes out of bounds if an index is out of range, so it needs an array with an extra row, which is
appended before and cut off afterwards. Here the loop over an out-of-range row has trip count 0.
"""

import math
from collections.abc import Sequence
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import ON_CPUS, Emitter, is_in_loop, is_unsigned, legalize
from tiduc.backends.iree.fast.kernels import Kernel, dispatch
from tiduc.backends.iree.fast.packing import splat
from tiduc.backends.iree.fast.single_updates import single_update
from tiduc.backends.iree.fault import Fault
from tiduc.backends.iree.faults.scatters import Places
from tiduc.dialect.types import element, shape

_MANY = 2**20
"""The most elements of an array that one thread may process."""
_LONG = 32
"""Elements of a row, from which on finding the row costs little."""


@legalize(
    "stablehlo.scatter",
    fault=(
        Fault(
            "slow",
            "In a loop, a scatter of one update copies the array to append a row: a slice is updated instead.",
        ),
        Fault(
            "slow",
            "A row more, for updates out of range, is appended and cut off: loops in one dispatch instead.",
        ),
    ),
    where=ON_CPUS,
)
def scatter(b: Emitter, op: Any) -> Sequence[Any] | None:
    """A `dynamic_update_slice` for a single update in a loop; else loops in one dispatch, where that pays."""
    single = single_update(b, op) if is_in_loop(op) else None
    if single is not None:
        return single
    count, places = len(op.results), Places.of(op)
    xs = list(op.operands)[:count]
    if not _pays(op, places):
        return None
    news = places.updates_of(b, list(op.operands)[count + 1 :])
    tables = [b.reshape(x, [places.count, places.width]) for x in xs]
    made = _by_loops(b, op, tables, places.rows(b, op.operands[count]), news)
    return [b.reshape(t, shape(x)) for t, x in zip(made, xs, strict=True)]


def _pays(op: Any, places: Places) -> bool:
    """Whether loops pay: arrays of signed integers or floats, of 2 to `_MANY` elements, in long rows.

    Shorter rows of several elements pay, too, unless the updated array is a splat, such as zeros, which IREE makes
    with the extra row at once. Several arrays pay with rows of any length, but must have different types, since MLIR
    merges two `tensor.empty` of one type.
    """
    count = len(op.results)
    xs, news = list(op.operands)[:count], list(op.operands)[count + 1 :]
    if len({x.type for x in xs}) < len(xs):
        return False
    if any(
        element(x) != element(y) for x, y in zip((*xs, *news), op.regions[0].blocks[0].arguments, strict=True)
    ):
        return False
    kinds = ir.IntegerType, ir.F16Type, ir.BF16Type, ir.F32Type, ir.F64Type
    if any(not isinstance(element(x), kinds) or is_unsigned(x) or element(x).width < 8 for x in xs):
        return False
    if any(not 1 < math.prod(shape(x)) <= _MANY for x in (*xs, *news)):
        return False
    return len(xs) > 1 or places.width >= _LONG or (places.width > 1 and splat(xs[0]) is None)


def _by_loops(b: Emitter, op: Any, tables: Sequence[Any], where: Any, news: Sequence[Any]) -> list[Any]:
    """The arrays `tables` with the updates `news` of some rows, which the op's body combines in order.

    `where` is a column of row indices; the number of rows marks an update that is dropped.
    """
    (rows, width), count = shape(tables[0]), shape(where)[0]
    # One-dimensional, since the compiler drops dimensions of size 1.
    places, *arrays = (
        b.reshape(behind_barrier(b, x), [math.prod(shape(x))]) for x in (where, *tables, *news)
    )
    olds, updates = arrays[: len(tables)], arrays[len(tables) :]

    def fill(k: Kernel) -> Sequence[Any]:
        zero, one, size = k.index(0), k.index(1), k.index(width)

        def copy(k: Kernel, x: Any) -> Any:
            end = k.index(rows * width)
            return k.loop(
                zero, end, one, [k.empty(x.type)], lambda k, i, out: [k.put(k.element(x, i), out, i)]
            )[0]

        def combined(k: Kernel, to: Any, of: Any, outs: Sequence[Any]) -> list[Any]:
            """The results of the body for the elements at `to` and the updates at `of`."""
            pairs = [*(k.element(x, to) for x in outs), *(k.element(u, of) for u in updates)]
            return [k.element(v) for v in k.inlined(op.regions[0], [k.scalar(v) for v in pairs])]

        def of_element(k: Kernel, n: Any, *outs: Any) -> Sequence[Any]:
            row, last = k.cast(k.element(places, n), ir.IndexType.get()), k.index(rows - 1)
            inside, at = k.below(row, k.index(rows)), k.arith("minui", row, last)
            made = zip(outs, combined(k, at, n, outs), strict=True)
            return [k.put(k.either(inside, v, k.element(x, at)), x, at) for x, v in made]

        def of_row(k: Kernel, n: Any, *outs: Any) -> Sequence[Any]:
            row = k.cast(k.element(places, n), ir.IndexType.get())
            to, of = (k.arith("muli", i, size) for i in (row, n))

            def along(k: Kernel, j: Any, *outs: Any) -> Sequence[Any]:
                at = k.arith("addi", to, j)
                made = zip(outs, combined(k, at, k.arith("addi", of, j), outs), strict=True)
                return [k.put(v, x, at) for x, v in made]

            end = k.either(k.below(row, k.index(rows)), size, zero)
            return k.loop(zero, end, one, outs, along)

        update = of_element if width == 1 else of_row
        return k.loop(zero, k.index(count), one, [copy(k, x) for x in olds], update)

    results = dispatch(b, [x.type for x in olds], fill)
    return [b.reshape(y, shape(x)) for y, x in zip(results, tables, strict=True)]


def behind_barrier(b: Emitter, x: Any) -> Any:
    """x behind a barrier, so that its producer stays out of the dispatch; constants and block arguments need none."""
    of = x
    while not isinstance(of.owner, ir.Block) and of.owner.name == "stablehlo.reshape":
        of = of.owner.operands[0]
    return x if isinstance(of.owner, ir.Block) or of.owner.name == "stablehlo.constant" else b.barrier(x)[0]
