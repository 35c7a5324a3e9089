"""patches: overlapping windows of an array, copied side by side (im2col) by one loop, a `linalg.generic`.

    y[h, w, p, q, n] = x[h + p - 1, w + q - 1, n]      patches(x, [(H, 0, 1), (W, 1, 1), (3, 0, 1), (3, 1, 1), (N, 2, 1)], [-1, -1, 0])

As slices and a concatenation, IREE would compile one or two dispatches for each slice, a tenth of a second each.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter
from tiduc.backends.iree.fast.kernels import Kernel
from tiduc.dialect.types import element, shape, with_shape


class Along(NamedTuple):
    """A dimension of the patches: its size, and the step that it takes along a dimension of the array."""

    size: int
    dimension: int
    step: int = 1


def patches(b: Emitter, x: Any, dimensions: Sequence[Along], starts: Sequence[int], to: Sequence[int]) -> Any:
    """The elements of x from `starts` on, at the sum of all steps; what lies outside of x is 0. Reshaped `to` a shape."""
    last = list(starts)
    for along in dimensions:
        last[along.dimension] += (along.size - 1) * along.step
    low = [max(0, -start) for start in starts]
    high = [max(0, end + 1 - n) for end, n in zip(last, shape(x), strict=True)]
    if any((*low, *high)):
        zero = b.constant(np.zeros([]), ir.RankedTensorType.get([], element(x)))
        x = b.pad(x, zero, low, high, [0] * len(low))
    # Without the barrier IREE would fuse what computes x into the loop, and compute it for each patch.
    (x,) = b.barrier(x)
    places = [ir.AffineExpr.get_constant(start + lo) for start, lo in zip(starts, low, strict=True)]
    for i, along in enumerate(dimensions):
        places[along.dimension] += ir.AffineExpr.get_dim(i) * along.step
    k = Kernel(b.place, b.location)
    output = k.empty(with_shape(x.type, [along.size for along in dimensions]))
    y = k.generic([x], output, lambda k, v, _: v, ir.AffineMap.get(len(dimensions), 0, places))
    b.emitted += k.emitted
    return b.reshape(y, to)


def along(sizes: Sequence[int], steps: Sequence[int], first: int) -> list[Along]:
    """A dimension of the patches for each spatial dimension of the array, the first of which is dimension `first`."""
    return [Along(n, first + d, step) for d, (n, step) in enumerate(zip(sizes, steps, strict=True))]
