"""Scatters of rows as loops, on CPUs: one dispatch that copies the array and goes through the updates.

IREE's own scatter writes out of bounds where an index is out of range, so that it wants an array with a row more, which
is made before, and cut off afterwards. Here an update that is for no row has no elements.
"""

import math
from collections.abc import Sequence
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter, is_unsigned
from tiduc.backends.iree.fast.kernels import Kernel, dispatch
from tiduc.backends.iree.fast.packing import splat
from tiduc.dialect.types import element, shape

_MANY = 2**20
"""Elements of an array up to which one thread may have them all."""
_LONG = 32
"""Elements of a row from which on to find its place costs little."""


def pays(b: Emitter, op: Any, xs: Sequence[Any], news: Sequence[Any]) -> bool:
    """What is updated are numbers that machines have, neither one alone nor very many, in long rows.

    Shorter ones are, too, but for updates of zeros, or the like, which IREE makes with the row more. Several arrays
    are of different types: MLIR takes two empty arrays of one type for the same.
    """
    if not b.cpu or len({x.type for x in xs}) < len(xs):
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
    width = shape(news[0])[1]
    return len(xs) > 1 or width >= _LONG or (width > 1 and splat(xs[0]) is None)


def by_loops(b: Emitter, op: Any, tables: Sequence[Any], where: Any, news: Sequence[Any]) -> list[Any]:
    """Arrays of rows with an update for some of them, combined by the op's body, in the order of the updates.

    `where` is a matrix of one column, which has the number of rows for an update that is dropped.
    """
    (rows, width), count = shape(tables[0]), shape(where)[0]
    # In a line each, since the compiler drops dimensions of size 1.
    places, *arrays = (b.reshape(apart(b, x), [math.prod(shape(x))]) for x in (where, *tables, *news))
    olds, updates = arrays[: len(tables)], arrays[len(tables) :]

    def fill(k: Kernel) -> Sequence[Any]:
        zero, one, size = k.index(0), k.index(1), k.index(width)

        def copy(k: Kernel, x: Any) -> Any:
            end = k.index(rows * width)
            return k.loop(
                zero, end, one, [k.empty(x.type)], lambda k, i, out: [k.put(k.element(x, i), out, i)]
            )[0]

        def combined(k: Kernel, to: Any, of: Any, outs: Sequence[Any]) -> list[Any]:
            """What the body makes of the elements at a place, and of the updates at another."""
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


def apart(b: Emitter, x: Any) -> Any:
    """A value that is not made in the dispatch that reads it; constants, and what a block begins with, are not made."""
    of = x
    while not isinstance(of.owner, ir.Block) and of.owner.name == "stablehlo.reshape":
        of = of.owner.operands[0]
    return x if isinstance(of.owner, ir.Block) or of.owner.name == "stablehlo.constant" else b.barrier(x)[0]
