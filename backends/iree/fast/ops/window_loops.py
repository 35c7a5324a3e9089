"""Computes a reduce_window of several arrays by loops in one dispatch, on CPUs.

The gradient of max pooling needs the index of each window's maximum. A reduce_window of values and indices computes it.
IREE's own code for such an op is scalar. Here, the innermost loop runs over channels, so that it is vectorized;
channels must therefore be the last dimension, and not be reduced. A reduce_window with padding is not rewritten,
because IREE copies the padded arrays, and its code on the copies is faster than loops.
"""

import itertools
import math
from collections.abc import Sequence

from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import ON_CPUS, Emitter, legalize
from tiduc.backends.iree.emit.kernels import Kernel, can_apply_body, computed_outside, dispatch
from tiduc.backends.iree.emit.sizes import SizeLike
from tiduc.backends.iree.fault import slow
from tiduc.dialect.facts.windows import window_of
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import element, shape

_LARGE = 32
"""The most elements of a window, because the code is unrolled over these elements."""
_VECTOR = 8
"""The fewest channels that fill a vector."""


@legalize("stablehlo.reduce_window", where=ON_CPUS)
@slow(
    "IREE computes windows over several arrays element by element; tiduc emits loops over vectors of channels.",
    "flags.py: pooling by JAX",
)
def reduce_window(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Computes a reduce_window by loops in one dispatch. Returns None if IREE's code is faster."""
    return _by_loops(b, op) if _pays(op) else None


def _pays(op: IrOp) -> bool:
    """Whether loops are faster. They are for small windows over several unpadded arrays with channels last."""
    if len(op.results) < 2 or not can_apply_body(op) or not shape(op.results[0]):
        return False
    w, sizes, places = window_of(op), shape(op.operands[0]), shape(op.results[0])
    if w != w.unpadded() or sizes[-1] != places[-1] or w.sizes[-1] != 1 or sizes[-1] < _VECTOR:
        return False
    return 1 < math.prod(w.sizes) <= _LARGE and 0 < math.prod(places)


def _by_loops(b: Emitter, op: IrOp) -> list[IrValue]:
    """Emits the loops. For each window, applies the body to the elements of the window in order.

    Each window begins with the initial values. The specification (reduce) allows to use these any number of times.
    """
    count, w, sizes, places = len(op.results), window_of(op), shape(op.operands[0]), shape(op.results[0])
    xs = [b.reshape(computed_outside(b, x), [math.prod(sizes)]) for x in list(op.operands)[:count]]
    inits = [computed_outside(b, x) for x in list(op.operands)[count:]]
    types = [ir.RankedTensorType.get([math.prod(places)], element(x)) for x in xs]

    def fill(k: Kernel) -> Sequence[IrValue]:
        start = [k.element(x) for x in inits]

        def fold(k: Kernel, place: Sequence[SizeLike], *outs: IrValue) -> Sequence[IrValue]:
            values = start
            for offsets in itertools.product(*map(range, w.sizes)):
                along = zip(place, w.strides, offsets, w.dilation, strict=True)
                at = k.linear_index(sizes, [i * stride + j * step for i, stride, j, step in along])
                values = k.inlined_on_scalars(op.regions[0], [*values, *(k.element(x, at) for x in xs)])
            at = k.linear_index(places, place)
            return [k.put(v, out, at) for v, out in zip(values, outs, strict=True)]

        return k.nest(places, [k.empty(type_) for type_ in types], fold)

    return [b.reshape(y, places) for y in dispatch(b, types, fill)]
