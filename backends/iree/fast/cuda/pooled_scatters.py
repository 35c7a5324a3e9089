"""pooled_scatters: on GPUs, computes the gradient of a max-pool as a sum instead of a scatter.

    %0:2 = reduce_window(%x, reshape (iota 25))    the greatest element of each window of 3x3, and its index in 5x5
    %1 = scatter(%z, %0#1, %dy)                    adds each window's cotangent to that element
    ->
    %1 = %z + the sum, over the 9 offsets k in a window, of pad (select (%0#1 == index of the element at k), %dy, 0)

Each window chooses one of its own elements, so an element receives updates only from the windows that contain it.
IREE's scatter would apply all updates in one thread of the GPU.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.backends.iree.emit.emitter import ON_OTHERS, Emitter, is_static, legalize
from tiduc.backends.iree.emit.known import constant_splat
from tiduc.backends.iree.emit.windows import MOST_TERMS, spread_windows
from tiduc.backends.iree.fault import slow
from tiduc.dialect.emitters.bodies import reducer
from tiduc.dialect.facts.windows import Window, window_of
from tiduc.dialect.graph.dependences import RESHAPES
from tiduc.dialect.graph.matching import defined_by, traced
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import shape, with_shape
from tiduc.passes.rules.gather import type_range
from tiduc.passes.rules.selection import selects


class Chosen(NamedTuple):
    """For each window over an array of shape `sizes`, the element that the window chooses.

    For each window, `numbers` has the row-major index of the chosen element. If a window chooses no element, `numbers`
    has `none`, the initial value of the reduce_window. The scatter adds the update of such a window at the index
    `instead`, or drops the update if `instead` is out of range.
    """

    numbers: IrValue
    window: Window
    sizes: list[int]
    none: int
    instead: int


@legalize("stablehlo.scatter", where=ON_OTHERS)
@slow(
    "One thread of a GPU applies all updates of a scatter; tiduc turns a max-pool's gradient into a sum.",
    "gpu_networks.py: resnet18",
)
def scatter_of_pool(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Computes a scatter as a sum over the offsets in a window.

    Returns None unless the scatter adds scalars at the indices of elements that windows choose, and windows are small.
    """
    if len(op.results) != 1 or reducer(op) != "stablehlo.add":
        return None
    flat, indices, updates = op.operands
    chosen = _chosen(indices)
    if chosen is None or not _adds_numbers(op, chosen) or math.prod(chosen.window.sizes) > MOST_TERMS:
        return None
    count, zero = math.prod(chosen.sizes), b.constant(0, with_shape(flat.type, []))
    total = b.reshape(spread_windows(b, updates, chosen.numbers, chosen.window, chosen.sizes), [count])
    total = b.add(flat, b.pad(total, zero, [0], [shape(flat)[0] - count], [0]))
    if not 0 <= chosen.instead < shape(flat)[0]:
        return [total]
    lost = b.compare(chosen.numbers, b.constant(chosen.none, chosen.numbers.type), "EQ")
    lost = b.reduce_sum(b.select(lost, updates, b.constant(0, updates)), range(len(shape(updates))))
    after = shape(flat)[0] - chosen.instead - 1
    return [b.add(total, b.pad(b.reshape(lost, [1]), zero, [chosen.instead], [after], [0]))]


def _chosen(indices: IrValue) -> Chosen | None:
    """Returns the elements that the windows of a `reduce_window` choose, if their indices are a scatter's indices.

    The indices may be reshaped, and clamped to a range that contains the indices of all elements. Returns None for
    other indices.
    """
    clamps = [c for x in traced(indices, RESHAPES) if (c := defined_by(x, "stablehlo.clamp")) is not None]
    low, y, high = clamps[0].operands if clamps else (None, indices, None)
    for x in traced(y, RESHAPES):
        pool = defined_by(x, "stablehlo.reduce_window")
        if pool is None or not is_static(x.type):
            continue
        i = x.result_number
        numbers, none, window = (
            pool.operands[i],
            constant_splat(pool.operands[len(pool.results) + i]),
            window_of(pool),
        )
        count = math.prod(shape(numbers))
        nothing = -1 if none is None else int(none.value)
        if none is None or 0 <= nothing < count or any(n != 1 for n in window.base):
            return None
        least, most = _limit(low, min(nothing, 0)), _limit(high, max(nothing, count))
        if least is None or most is None or least > 0 or most < count - 1:
            return None
        known = _counts(numbers) and selects(pool, i)
        instead = min(max(nothing, least), most)
        return Chosen(x, window, shape(numbers), nothing, instead) if known else None
    return None


def _limit(x: IrValue | None, otherwise: int) -> int | None:
    """Returns a limit x of a clamp as a number: `otherwise` if x is None (no clamp), None if x is not constant."""
    if x is None:
        return otherwise
    number = constant_splat(x)
    return None if number is None else int(number.value)


def _counts(x: IrValue) -> bool:
    """Whether each element of an array equals its row-major index, and the type holds all these indices."""
    lines = [line for y in traced(x, RESHAPES) if (line := defined_by(y, "stablehlo.iota")) is not None]
    return bool(lines) and lines[0].results[0].type.rank == 1 and math.prod(shape(x)) - 1 <= type_range(x)[1]


def _adds_numbers(op: IrOp, chosen: Chosen) -> bool:
    """Whether a scatter updates one element of a vector for each index, in the order of `chosen.numbers`."""
    d = hlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    flat, indices, updates = op.operands
    in_order = shape(updates) == shape(chosen.numbers) and d.index_vector_dim >= len(shape(indices)) - 1
    return in_order and list(d.inserted_window_dims) == [0] and shape(flat)[0] >= math.prod(chosen.sizes)
