"""Convolutions as products of patches (im2col), which are slices of x behind one another, and matrices.

    by_places    y[(n, p), o] = sum_s patches[(n, p), s] w[s, o]     one slice for each place p of the window
    by_offsets   y[(n, p), o] = sum_s patches[(n, p), s] w[s, o]     one slice for each offset of the window

`by_places` is for few places, as in the gradients of kernels. Either the patches or the result have to be transposed to
their order in memory: the smaller ones are. `by_offsets` is for windows of few offsets.
"""

import itertools
import math
from typing import Any

from tiduc.backends.iree.emitter import Emitter
from tiduc.backends.iree.fast.convolution_form import BATCH, FEATURES, Convolution, Result, windowed

_SLICES = 128
"""Slices that make the patches, at most."""
_BYTES = 2**26
"""Of the patches, at most."""
_COLUMNS = 16
"""Numbers in a row, so that vectors are copied."""


def by_places(b: Emitter, c: Convolution) -> Result | None:
    """The result by a product with one slice for each place; None if the patches would be too many or too large."""
    count, rows = math.prod(c.places), c.batch * math.prod(c.places)
    if count > _SLICES or rows * c.summed * c.width > _BYTES:
        return None
    features, results, *spatial = c.layout.kernel
    spatially = tuple(range(c.rank))
    w = b.reverse(c.w, [spatial[d] for d in c.reversed]) if c.reversed else c.w
    kernel = b.reshape(b.transpose(w, [results, features, *spatial]), [c.outputs, c.summed])
    # Without the barriers IREE would fuse the slices into the product and lose the product of matrices.
    if c.outputs > c.summed:
        patches, kernel = b.barrier(b.transpose(_rows(b, c), [1, 0]), kernel)
        y = b.dot_general(kernel, patches, ((), ()), ((1,), (0,)), {})
        y = b.reshape(y, [c.outputs, c.batch, *c.places])
        return Result(b.barrier(y)[0], (FEATURES, BATCH, *spatially))
    if c.batch >= _COLUMNS:
        patches, kernel = b.barrier(_columns(b, c), kernel)
        y = b.dot_general(kernel, patches, ((), ()), ((1,), (0,)), {})
        y = b.reshape(y, [c.outputs, *c.places, c.batch])
        return Result(b.barrier(y)[0], (FEATURES, *spatially, BATCH))
    patches, kernel = b.barrier(_rows(b, c), b.transpose(kernel, [1, 0]))
    y = b.dot_general(patches, kernel, ((), ()), ((1,), (0,)), {})
    return Result(b.barrier(b.reshape(y, [c.batch, *c.places, c.outputs]))[0], (BATCH, *spatially, FEATURES))


def _rows(b: Emitter, c: Convolution) -> Any:
    """The patches of all places as a matrix: (batch and places, features and window)."""
    batch, features, *spatial = c.layout.input
    n, m, x = c.batch, c.summed // math.prod(c.window.sizes), b.transpose(c.x, [batch, features, *spatial])
    starts = [[0, 0, *at] for at in _starts(c)]
    slices = windowed(b, x, starts, [1, 1, *c.window.dilation], [n, m, *c.window.sizes])
    patches = b.concatenate([b.reshape(patch, [n, 1, c.summed]) for patch in slices], 1)
    return b.reshape(patches, [n * len(starts), c.summed])


def _columns(b: Emitter, c: Convolution) -> Any:
    """The patches of all places as a matrix: (features and window, places and batch)."""
    batch, features, *spatial = c.layout.input
    n, m, x = c.batch, c.summed // math.prod(c.window.sizes), b.transpose(c.x, [features, *spatial, batch])
    starts = [[0, *at, 0] for at in _starts(c)]
    slices = windowed(b, b.barrier(x)[0], starts, [1, *c.window.dilation, 1], [m, *c.window.sizes, n])
    return b.reshape(b.concatenate(slices, c.rank + 1), [c.summed, n * len(starts)])


def _starts(c: Convolution) -> list[list[int]]:
    """Where the window starts in the image, for each place."""
    w = c.window
    return [
        [i * s - lo for i, s, lo in zip(place, w.strides, w.low, strict=True)]
        for place in itertools.product(*map(range, c.places))
    ]


def by_offsets(b: Emitter, c: Convolution) -> Result | None:
    """The result by a product with one slice for each offset; None if the patches would be too many or too large."""
    count, rows = math.prod(c.window.sizes), c.batch * math.prod(c.places)
    if count > _SLICES or rows * c.summed * c.width > _BYTES:
        return None
    x, window, features = c.image(b), c.window, c.summed // count
    starts = [
        [0, *(j * d - lo for j, d, lo in zip(offset, window.dilation, window.low, strict=True)), 0]
        for offset in itertools.product(*map(range, window.sizes))
    ]
    slices = windowed(b, x, starts, [1, *window.strides, 1], [c.batch, *c.places, features])
    patches = b.reshape(b.concatenate(slices, c.rank + 1), [rows, c.summed])
    patches, kernel = b.barrier(patches, b.reshape(c.kernel(b), [c.summed, c.outputs]))
    y = b.reshape(b.dot_general(patches, kernel, ((), ()), ((1,), (0,)), {}), [c.batch, *c.places, c.outputs])
    return Result(b.barrier(y)[0], (BATCH, *range(c.rank), FEATURES))
