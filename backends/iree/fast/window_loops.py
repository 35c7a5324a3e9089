"""reduce_window of several arrays as loops in one dispatch, on CPUs.

The gradient of max pooling needs the index of each window's maximum: a reduce_window over the values and their indices.
IREE's code for it is scalar. Here channels must be last and not reduced, so the innermost loop, over channels, is
vectorized.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import ON_CPUS, Emitter, legalize
from tiduc.backends.iree.fast.kernels import Kernel, can_apply_body, computed_outside, dispatch
from tiduc.backends.iree.fault import slow
from tiduc.dialect.types import element, shape
from tiduc.dialect.windows import Window, window_of

_LARGE = 32
"""The most elements of a window; the code is unrolled over them."""
_VECTOR = 8
"""The fewest channels that fill a vector."""


@legalize("stablehlo.reduce_window", where=ON_CPUS)
@slow("Windows over several arrays are computed element by element: loops over vectors of channels instead.")
def reduce_window(b: Emitter, op: Any) -> Sequence[Any] | None:
    """The results by loops in one dispatch, where these are faster."""
    return _by_loops(b, op) if _pays(op) else None


def _pays(op: Any) -> bool:
    """Whether loops are faster: for small windows over several arrays with channels last."""
    if len(op.results) < 2 or not can_apply_body(op) or not shape(op.results[0]):
        return False
    w, sizes, places = window_of(op), shape(op.operands[0]), shape(op.results[0])
    if set(w.base) != {1} or sizes[-1] != places[-1] or w.sizes[-1] != 1 or sizes[-1] < _VECTOR:
        return False
    return 1 < math.prod(w.sizes) <= _LARGE and 0 < math.prod(places)


def _by_loops(b: Emitter, op: Any) -> list[Any]:
    """The results of a reduce_window: folds its body over the elements of each window in order.

    A fold starts with the initial values, and padding is read as initial values; the specification (reduce) allows to
    use initial values any number of times.
    """
    count, w, sizes, places = len(op.results), window_of(op), shape(op.operands[0]), shape(op.results[0])
    xs = [b.reshape(computed_outside(b, x), [math.prod(sizes)]) for x in list(op.operands)[:count]]
    inits = [computed_outside(b, x) for x in list(op.operands)[count:]]
    types = [ir.RankedTensorType.get([math.prod(places)], element(x)) for x in xs]

    def fill(k: Kernel) -> Sequence[Any]:
        start = [k.element(x) for x in inits]

        def fold(k: Kernel, place: Sequence[Any], *outs: Any) -> Sequence[Any]:
            values = start
            for offsets in itertools.product(*map(range, w.sizes)):
                at, inside = _place(k, w, (sizes, places), place, offsets)
                line = k.select_scalar(inside, k.linear_index(sizes, at), 0)
                read = [
                    k.select_scalar(inside, k.element(x, line), y) for x, y in zip(xs, start, strict=True)
                ]
                values = k.inlined_on_scalars(op.regions[0], [*values, *read])
            at = k.linear_index(places, place)
            return [k.put(v, out, at) for v, out in zip(values, outs, strict=True)]

        return k.nest(places, [k.empty(type_) for type_ in types], fold)

    return [b.reshape(y, places) for y in dispatch(b, types, fill)]


def _place(
    k: Kernel, w: Window, shapes: tuple[list[int], list[int]], place: Sequence[Any], offsets: Sequence[int]
) -> tuple[list[Any], Any]:
    """The place of the element at `offsets` in the window at `place`, and whether it is in the operand, not in padding.

    `shapes` are those of the operand and the result.
    """
    at, inside = [], []
    for d, (i, n, m) in enumerate(zip(place, *shapes, strict=True)):
        shift = offsets[d] * w.dilation[d] - w.low[d]
        at.append(i * w.strides[d] + shift)
        if shift < 0 or (m - 1) * w.strides[d] + shift >= n:
            inside.append(k.below(at[-1], n))  # false for negative indices, too
    return at, k.all(inside)
