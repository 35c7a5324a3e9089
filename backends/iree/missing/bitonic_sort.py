"""sort for GPUs: a bitonic network, whose steps exchange all elements at once (Batcher, "Sorting networks", 1968).

IREE sorts a row in one thread, in O(n^2) steps. Mesa's software device ends a thread's loops after 65,535
steps, with the row unsorted. The network has n (log n)^2 / 2 exchanges; a loop runs n / 2 of them in each
iteration:

    element i meets i xor j;  the lesser goes to the lower index, or to the upper one where i has the bit k;
    j is halved each time, then k doubled, until k is beyond n

The original indices break ties, so that the sort is stable. They also mark the padding up to a power of two,
which is sorted to the end.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.backends.iree.emitter import Emitter, signless
from tiduc.dialect.types import shape, with_element, with_shape


def network_sort(b: Emitter, op: Any, dimension: int) -> Sequence[Any]:
    """The results of a sort along a dimension of static size."""
    sizes = shape(op.operands[0])
    n = sizes[dimension]
    padded = 1 << (n - 1).bit_length()
    front = [dimension, *(i for i in range(len(sizes)) if i != dimension)]
    rows = [padded, *(sizes[i] for i in front[1:])]
    xs = [_padded(b, b.transpose(x, front), padded) for x in op.operands]
    own = with_shape(with_element(op.operands[0].type, signless(32)), rows)
    scalar = with_shape(own, [])
    places = b.iota(0, own)

    def step(b: Emitter, k: Any, j: Any, *carried: Any) -> Sequence[Any]:
        i = b.iota(0, with_shape(own, [padded]))
        other = b.emit("stablehlo.xor", (i, b.broadcast_in_dim(j, [], i.type)), i.type)
        met = [_rows(b, x, other) for x in carried]
        lower = b.compare(i, other, "LT")
        upwards = b.compare(b.and_(i, b.broadcast_in_dim(k, [], i.type)), b.like(0, i), "EQ")
        wants_first = b.compare(b.convert(lower, signless(32)), b.convert(upwards, signless(32)), "EQ")
        wide = b.broadcast_in_dim(wants_first, [0], with_element(own, signless(1)))
        first = _first(b, op, carried, met, n)
        stays = b.compare(b.convert(first, signless(32)), b.convert(wide, signless(32)), "EQ")
        half = b.emit("stablehlo.shift_right_logical", (j, b.constant(1, scalar)), scalar)
        done = b.compare(half, b.constant(0, scalar), "EQ")
        twice = b.add(k, k)
        kept = [b.select(stays, x, y) for x, y in zip(carried, met, strict=True)]
        return [b.select(done, twice, k), b.select(done, k, half), *kept]

    def below(b: Emitter, k: Any, *_: Any) -> Any:
        return b.compare(k, b.constant(padded, scalar), "LE")

    start = [b.constant(2, scalar), b.constant(1, scalar), places, *xs]
    sorted_ = b.while_(start, below, step)[3:]
    ends = [0] * len(rows), [n, *rows[1:]], [1] * len(rows)
    back = np.argsort(front)
    return [b.transpose(b.slice(x, *ends), back) for x in sorted_]


def _padded(b: Emitter, x: Any, n: int) -> Any:
    """x with n rows, those added being copies of its first rows."""
    given = shape(x)[0]
    if given == n:
        return x
    some = b.slice(x, [0] * len(shape(x)), [n - given, *shape(x)[1:]], [1] * len(shape(x)))
    return b.concatenate([x, some], 0)


def _rows(b: Emitter, x: Any, places: Any) -> Any:
    """The rows of x at these indices."""
    rank = len(shape(x))
    numbers = hlo.GatherDimensionNumbers.get(list(range(1, rank)), [0], [], [], [0], 1)
    indices = b.reshape(places, [*shape(places), 1])
    sizes = ir.DenseI64ArrayAttr.get([1, *shape(x)[1:]])
    attributes = {
        "dimension_numbers": numbers,
        "slice_sizes": sizes,
        "indices_are_sorted": ir.BoolAttr.get(False),
    }
    return b.emit("stablehlo.gather", (x, indices), x.type, attributes)


def _first(b: Emitter, op: Any, mine: Sequence[Any], others: Sequence[Any], n: int) -> Any:
    """Whether elements come before those they meet; `mine` and `others` begin with the original indices."""
    i, j = mine[0], others[0]
    pairs = [v for pair in zip(mine[1:], others[1:], strict=True) for v in pair]
    turned = [v for pair in zip(others[1:], mine[1:], strict=True) for v in pair]
    less, more = _compared(b, op, pairs), _compared(b, op, turned)
    earlier = b.compare(i, j, "LT")
    by_value = b.or_(less, b.and_(b.not_(more), earlier))
    real = [b.compare(v, b.like(n, v), "LT") for v in (i, j)]
    return b.select(b.and_(*real), by_value, earlier)


def _compared(b: Emitter, op: Any, pairs: Sequence[Any]) -> Any:
    """The comparator of a sort, on all elements at once."""
    type_ = with_element(pairs[0].type, signless(1))
    scalars = [with_shape(x.type, []) for x in pairs]
    body = b.region(scalars, lambda b, *xs: b.inlined(op.regions[0], xs))
    dimensions = ir.DenseI64ArrayAttr.get(range(len(type_.shape)))
    return b.emit_all("stablehlo.map", pairs, (type_,), {"dimensions": dimensions}, [body])[0]
