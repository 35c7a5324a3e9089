"""Convolutions of small images with large kernels, as products that read the kernel w once, in its order in memory.

    _kernel_first    y[o, p] = sum_(i, j) w[o, (i, j)] patches[(i, j), p]        if the features of y come first in w
    _kernel_second   d[p, (o, j)] = sum_i x[p, i] w[i, (o, j)];  y[o, q] = sum_j d[q + j, o, j]     if those of x do

Transposing w for a convolution with channels last would take longer than the convolution. IREE's products are twice as
fast if the number of columns is a multiple of 16.
"""

import itertools
import math
from typing import Any

from tiduc.backends.iree.emitter import Emitter
from tiduc.backends.iree.fast.convolution_form import BATCH, FEATURES, Convolution, Result
from tiduc.backends.iree.fast.patches import product, zero
from tiduc.backends.iree.fast.products import PLACES, WINDOW, patch_matrix
from tiduc.dialect.types import shape

_VECTOR = 16
_LARGE = 2**18
"""The fewest elements of a large kernel."""
_RATIO = 2
"""The fewest features of a large kernel for each place of the image."""
_OFFSETS = 32
"""The most offsets of the window; `_kernel_second` adds an array for each."""


def by_kernel(b: Emitter, c: Convolution) -> Result | None:
    """The result, by a product; None if w has another order of dimensions, or is small compared to the image."""
    y = by_rows(b, c)
    if y is not None or not _is_large(c):
        return y
    m = c.summed // math.prod(c.window.sizes)
    rows = c.batch * math.prod(shape(c.x)[d] for d in c.layout.input[2:])
    if c.layout.kernel[0] == 0 and set(c.window.strides) == {1} and m >= _RATIO * rows:
        return _kernel_second(b, c)
    return None


def by_rows(b: Emitter, c: Convolution) -> Result | None:
    """The result, by a product if each feature of y has a row of w; None otherwise, and as in `by_kernel`."""
    if c.layout.kernel[1] or set(c.window.base) != {1} or c.reversed or not _is_large(c):
        return None
    return _kernel_first(b, c) if c.outputs >= _RATIO * c.batch * math.prod(c.places) else None


def _is_large(c: Convolution) -> bool:
    """Whether the kernel is large, and has spatial dimensions of few offsets as its last ones."""
    in_order = list(c.layout.kernel[2:]) == list(range(2, c.rank + 2))
    return (
        c.groups == 1
        and in_order
        and 1 < math.prod(c.window.sizes) <= _OFFSETS
        and c.outputs * c.summed >= _LARGE
    )


def _kernel_first(b: Emitter, c: Convolution) -> Result:
    n, columns = c.batch, c.batch * math.prod(c.places)
    matrix = _widened(b, patch_matrix(b, c, FEATURES, WINDOW, BATCH, PLACES))
    y = b.cut(product(b, b.reshape(c.w, [c.outputs, c.summed]), matrix), 1, 0, columns)
    return Result(b.reshape(y, [c.outputs, n, *c.places]), (FEATURES, BATCH, *range(c.rank)))


def _widened(b: Emitter, x: Any) -> Any:
    """A matrix with columns of zeros added, such that their number is a multiple of `_VECTOR`."""
    more = -shape(x)[1] % _VECTOR
    return b.pad(x, zero(b, x), [0, 0], [0, more], [0, 0]) if more else x


def _kernel_second(b: Emitter, c: Convolution) -> Result:
    batch, features, *spatial = c.layout.input
    w, n, m = c.window, c.batch, c.summed // math.prod(c.window.sizes)
    sizes = [shape(c.x)[d] for d in spatial]
    x = b.reshape(b.transpose(c.x, [batch, *spatial, features]), [n * math.prod(sizes), m])
    count = math.prod(w.sizes)
    d = b.reshape(product(b, x, b.reshape(c.w, [m, c.outputs * count])), [n, *sizes, c.outputs, count])
    # The offsets are the first dimension, so that each slice of d is contiguous.
    d = b.stored(b.transpose(d, [c.rank + 2, *range(c.rank + 2)]))
    total = None
    for number, offset in enumerate(itertools.product(*map(range, w.sizes))):
        j = [
            k - 1 - i if axis in c.reversed else i
            for axis, (i, k) in enumerate(zip(offset, w.sizes, strict=True))
        ]
        # Element i of x is at place i * base + low - j * dilation.
        low = [lo - i * dilation for lo, i, dilation in zip(w.low, j, w.dilation, strict=True)]
        long = [(size - 1) * base + 1 for size, base in zip(sizes, w.base, strict=True)]
        high = [m_ - lo - l_ for m_, lo, l_ in zip(c.places, low, long, strict=True)]
        part = b.reshape(b.cut(d, 0, number, number + 1), [n, *sizes, c.outputs])
        holes = [0, *(base - 1 for base in w.base), 0]
        part = b.pad(part, zero(b, part), [0, *low, 0], [0, *high, 0], holes)
        total = part if total is None else b.emit("stablehlo.add", (total, part), part.type)
    return Result(total, (BATCH, *range(c.rank), FEATURES))
