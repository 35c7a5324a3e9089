"""Sorts on GPUs by a bitonic network: each iteration of a loop compares all elements in pairs.

Source: Batcher, "Sorting networks and their applications" (1968).

IREE sorts a row in one thread, in O(n^2) steps. Mesa's software device ends a thread's loops after 65,535 iterations,
and leaves the row unsorted. A network for n elements has about n (log n)^2 / 4 comparisons. Each iteration of the loop
does n / 2 of them:

    for blocks of k = 2, 4, 8, ... elements, until one block has all elements:
        compare element i with element i xor (k - 1), then with i xor (k / 4), i xor (k / 8), ..., i xor 1
        each comparison puts the lesser element at the lower index

Since the lesser element always goes to the lower index, the network needs no elements beyond the end of a row, and n
need not be a power of two. The original indices break ties, so that the sort is stable.
"""

import math
from collections.abc import Sequence

import numpy as np

from tiduc.backends.iree.emit.arrays import computed, in_shape, mapped, scalar_of, sizes_of
from tiduc.backends.iree.emit.emitter import Emitter, signless
from tiduc.backends.iree.emit.kernels import Kernel
from tiduc.backends.iree.emit.refused import refused
from tiduc.backends.iree.emit.rows import at_index, places_along
from tiduc.backends.iree.emit.sizes import RunTimeSize
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import element


def network_sort(b: Emitter, op: IrOp, dimension: int) -> Sequence[IrValue]:
    """Sorts the operands of `op` along a dimension by a sorting network, and returns them.

    Raises `Unsupported` if both the sorted dimension and another dimension are dynamic, because IREE miscompiles loops
    that carry several arrays with two dynamic dimensions.
    """
    sizes = sizes_of(b, op.operands[0])
    order = [dimension, *(i for i in range(len(sizes)) if i != dimension)]
    turned = [sizes[i] for i in order]
    size = turned[0], math.prod(turned[1:])
    if not any(isinstance(n, int) for n in size):
        raise refused(op, "code for GPUs sorts rows of dynamic length only if the number of rows is static")
    xs = [in_shape(b, b.transpose(x, order), size) for x in op.operands]
    one, two, n = (scalar_of(b, i) for i in (1, 2, size[0]))
    places = places_along(b, xs[0], 0)

    def step(b: Emitter, k: IrValue, j: IrValue, *arrays: IrValue) -> Sequence[IrValue]:
        mask = b.select(b.compare(b.add(j, j), k, "EQ"), b.subtract(k, one), j)
        partners = computed(
            b, size, signless(32), [mask], lambda k, place, mask: _partner(k, place, mask, size)
        )
        met = [computed(b, size, element(x), [x, partners], at_index(0)) for x in arrays]
        lower = b.compare(places, partners, "LE")
        first = _comes_first(b, op, arrays, met)
        stays = b.compare(b.convert(first, signless(32)), b.convert(lower, signless(32)), "EQ")
        half = b.emit("stablehlo.shift_right_logical", (j, one), j.type)
        done = b.compare(half, b.subtract(one, one), "EQ")
        chosen = [b.select(stays, x, y) for x, y in zip(arrays, met, strict=True)]
        return [b.select(done, b.add(k, k), k), b.select(done, k, half), *chosen]

    start = [two, one, places, *xs]
    ys = b.while_(start, lambda b, k, *_: b.compare(k, b.add(n, n), "LT"), step)[3:]
    return [b.transpose(in_shape(b, y, turned), np.argsort(order)) for y in ys]


def _partner(
    k: Kernel, place: Sequence[RunTimeSize], mask: IrValue, size: Sequence[int | RunTimeSize]
) -> IrValue:
    """The index of the element with which the element at the indices `place` is compared: its index xor `mask`.

    If that index is beyond the end of the row, returns the element's own index.
    """
    i32 = signless(32)
    row = k.cast(place[0], i32)
    other = k.arith("xori", row, k.element(mask))
    return k.select_scalar(k.below(other, k.cast(size[0], i32)), other, row)


def _comes_first(b: Emitter, op: IrOp, mine: Sequence[IrValue], others: Sequence[IrValue]) -> IrValue:
    """Whether, in the sorted order, each element of `mine` comes before the element of `others` at the same index.

    Both lists begin with an array of the elements' original indices, which decide if neither element is less.
    """
    less, more = (
        mapped(b, op.regions[0], [v for pair in zip(xs[1:], ys[1:], strict=True) for v in pair])
        for xs, ys in ((mine, others), (others, mine))
    )
    return b.or_(less, b.and_(b.not_(more), b.compare(mine[0], others[0], "LT")))
