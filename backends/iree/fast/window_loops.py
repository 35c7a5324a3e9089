"""reduce_window of several arrays as loops, on CPUs: one dispatch that combines a window's elements one by one.

The gradient of max pooling needs the index of each window's maximum: a reduce_window over the values and their indices.
IREE computes it one element at a time. Here channels are last and not reduced, so the innermost loop is vectorized.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch_mlir import ir

from tiduc.backends.iree.emitter import ON_CPUS, Emitter, legalize
from tiduc.backends.iree.fast.kernels import Kernel, applies, behind_barrier, dispatch
from tiduc.backends.iree.fault import slow
from tiduc.dialect.types import element, shape

_LARGE = 32
"""The most elements of a window, since the code is unrolled over them."""
_VECTOR = 8
"""The fewest channels that fill a vector."""


@dataclass(frozen=True)
class _Windows:
    """The shapes of a reduce_window's operands and results, and its window attributes, by dimension."""

    sizes: list[int]
    results: list[int]
    window: list[int]
    strides: list[int]
    dilations: list[int]
    low: list[int]

    @classmethod
    def of(cls, op: Any) -> "_Windows":
        """Reads these attributes from a reduce_window."""
        rank = len(shape(op.operands[0]))

        def each(name: str) -> list[int]:
            return list(op.attributes[name]) if name in op.attributes else [1] * rank

        low = np.array(op.attributes["padding"])[:, 0].tolist() if "padding" in op.attributes else [0] * rank
        window, strides = each("window_dimensions"), each("window_strides")
        sizes, results = shape(op.operands[0]), shape(op.results[0])
        return cls(sizes, results, window, strides, each("window_dilations"), low)


@legalize("stablehlo.reduce_window", where=ON_CPUS)
@slow("Windows over several arrays are computed element by element: loops over vectors of channels instead.")
def reduce_window(b: Emitter, op: Any) -> Sequence[Any] | None:
    """The windows as loops in one dispatch, where that pays."""
    return _by_loops(b, op) if _pays(op) else None


def _pays(op: Any) -> bool:
    """Whether loops pay: small windows over several arrays with channels last."""
    if len(op.results) < 2 or not applies(op) or not shape(op.results[0]):
        return False
    if set(op.attributes.get("base_dilations", [1])) != {1}:
        return False
    w = _Windows.of(op)
    if w.sizes[-1] != w.results[-1] or w.window[-1] != 1 or w.sizes[-1] < _VECTOR:
        return False
    return 1 < math.prod(w.window) <= _LARGE and 0 < math.prod(w.results)


def _by_loops(b: Emitter, op: Any) -> list[Any]:
    """The results of a reduce_window: folds its body over each window's elements in order.

    A fold starts with the initial values, and padding is read as initial values; the specification allows any number
    of initial values (reduce).
    """
    count, w = len(op.results), _Windows.of(op)
    xs = [b.reshape(behind_barrier(b, x), [math.prod(w.sizes)]) for x in list(op.operands)[:count]]
    inits = [behind_barrier(b, x) for x in list(op.operands)[count:]]
    types = [ir.RankedTensorType.get([math.prod(w.results)], element(x)) for x in xs]

    def fill(k: Kernel) -> Sequence[Any]:
        start = [k.element(x) for x in inits]

        def fold(k: Kernel, place: Sequence[Any], *outs: Any) -> Sequence[Any]:
            values = start
            for offsets in itertools.product(*map(range, w.window)):
                values = k.applied(op.regions[0], [*values, *_read(k, w, xs, start, place, offsets)])
            at = k.line(w.results, place)
            return [k.put(v, out, at) for v, out in zip(values, outs, strict=True)]

        return k.nest(w.results, [k.empty(type_) for type_ in types], fold)

    return [b.reshape(y, w.results) for y in dispatch(b, types, fill)]


def _read(
    k: Kernel,
    w: _Windows,
    xs: Sequence[Any],
    inits: Sequence[Any],
    place: Sequence[Any],
    offsets: Sequence[int],
) -> list[Any]:
    """The elements at `offsets` in the window at `place`; the initial values if that position is padding."""
    at, inside = [], None
    for d, i in enumerate(place):
        shift = offsets[d] * w.dilations[d] - w.low[d]
        at.append(k.arith("addi", k.arith("muli", i, w.strides[d]), shift))
        if shift < 0 or (w.results[d] - 1) * w.strides[d] + shift >= w.sizes[d]:
            here = k.below(at[-1], w.sizes[d])  # false for negative indices, too
            inside = here if inside is None else k.arith("andi", inside, here)
    line = k.line(w.sizes, at)
    if inside is None:
        return [k.element(x, line) for x in xs]
    line = k.either(inside, line, 0)
    return [k.either(inside, k.element(x, line), init) for x, init in zip(xs, inits, strict=True)]
