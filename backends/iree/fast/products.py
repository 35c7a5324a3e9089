"""Convolutions as matrix products of the kernel and the patches (im2col): the elements of x in each window.

    y[(n, p), o] = sum_s patches[(n, p), s] w[s, o]

`by_places` is for few places, as in the gradients of kernels. Either the patches or the result must be transposed; the
smaller of the two is. `by_offsets` is for windows of few offsets.

No op of a program reads the gradients of kernels. Without a barrier after each of them, IREE would compute all of them
at the end, and keep their operands until then.
"""

import math
from typing import Any

from tiduc.backends.iree.emitter import Emitter
from tiduc.backends.iree.fast.convolution_form import BATCH, FEATURES, Convolution, Result
from tiduc.backends.iree.fast.kernels import in_own_dispatch
from tiduc.backends.iree.fast.patches import Along, along, patches, product, zero
from tiduc.dialect.types import shape, with_shape

_COUNT = 128
"""The largest number of places or offsets."""
_BYTES = 2**26
"""The largest size of the patches in bytes."""
_COLUMNS = 16
"""The smallest batch for which the patches have the batch last, so that whole vectors are copied."""
_LARGE = 2**20
"""The number of elements from which on the patches are multiplied in parts."""
_PART = 2**17
"""The most elements of such a part: half a megabyte of f32."""


def by_places(b: Emitter, c: Convolution) -> Result | None:
    """The result, by a product with the patches of few places; None if the patches would be too large."""
    count, rows = math.prod(c.places), c.batch * math.prod(c.places)
    if count > _COUNT or rows * c.summed * c.width > _BYTES:
        return None
    features, results, *spatial = c.layout.kernel
    spatially = tuple(range(c.rank))
    w = b.reverse(c.w, [spatial[d] for d in c.reversed]) if c.reversed else c.w
    kernel = b.reshape(b.transpose(w, [results, features, *spatial]), [c.outputs, c.summed])
    if c.outputs > c.summed:
        y = b.stored(product(b, kernel, b.transpose(_rows(b, c), [1, 0])))
        return Result(b.reshape(y, [c.outputs, c.batch, *c.places]), (FEATURES, BATCH, *spatially))
    parts = _parts(c.outputs, c.summed, rows)
    if c.batch >= _COLUMNS or parts > 1:
        y = b.stored(_summed_product(b, kernel, _columns(b, c), parts))
        return Result(b.reshape(y, [c.outputs, *c.places, c.batch]), (FEATURES, *spatially, BATCH))
    y = b.stored(product(b, _rows(b, c), b.transpose(kernel, [1, 0])))
    return Result(b.reshape(y, [c.batch, *c.places, c.outputs]), (BATCH, *spatially, FEATURES))


def _parts(rows: int, summed: int, columns: int) -> int:
    """The number of parts of the contracted dimension of a product; 1 unless the second matrix is large.

    IREE reads the second matrix again for every few rows of the first one, so a part of it should fit into a cache.
    """
    if summed * columns < _LARGE:
        return 1
    fitting = (n for n in range(2, summed // rows + 1) if summed % n == 0 and summed // n * columns <= _PART)
    return next(fitting, 1)


def _summed_product(b: Emitter, x: Any, y: Any, parts: int) -> Any:
    """The product of two matrices, as a sum of `parts` products."""
    if parts == 1:
        return product(b, x, y)
    (rows, summed), columns = shape(x), shape(y)[1]
    x = b.transpose(b.reshape(x, [rows, parts, summed // parts]), [1, 0, 2])
    y = b.reshape(y, [parts, summed // parts, columns])
    type_ = with_shape(x.type, [parts, rows, columns])
    z = in_own_dispatch(b, type_, lambda k: k.dot_general(x, y, ((0,), (0,)), ((2,), (1,)), {}))
    return b.reduce(z, zero(b, z), [0])


def _rows(b: Emitter, c: Convolution) -> Any:
    """The patches of all places as a matrix: (batch and places, features and window)."""
    batch, features, *spatial = c.layout.input
    w, m = c.window, c.summed // math.prod(c.window.sizes)
    x = b.transpose(c.x, [batch, features, *spatial])
    at = [Along(c.batch, 0), *along(c.places, w.strides, 2), Along(m, 1), *along(w.sizes, w.dilation, 2)]
    return patches(b, x, at, [0, 0, *(-lo for lo in w.low)], [c.batch * math.prod(c.places), c.summed])


def _columns(b: Emitter, c: Convolution) -> Any:
    """The patches of all places as a matrix: (features and window, places and batch)."""
    batch, features, *spatial = c.layout.input
    w, m, end = c.window, c.summed // math.prod(c.window.sizes), c.rank + 1
    x = b.transpose(c.x, [features, *spatial, batch])
    at = [Along(m, 0), *along(w.sizes, w.dilation, 1), *along(c.places, w.strides, 1), Along(c.batch, end)]
    return patches(b, x, at, [0, *(-lo for lo in w.low), 0], [c.summed, math.prod(c.places) * c.batch])


def by_offsets(b: Emitter, c: Convolution) -> Result | None:
    """The result, by a product with the patches of small windows; None if the patches would be too large."""
    count, rows = math.prod(c.window.sizes), c.batch * math.prod(c.places)
    if count > _COUNT or rows * c.summed * c.width > _BYTES:
        return None
    w, features, end = c.window, c.summed // count, c.rank + 1
    at = [
        Along(c.batch, 0),
        *along(c.places, w.strides, 1),
        *along(w.sizes, w.dilation, 1),
        Along(features, end),
    ]
    matrix = patches(b, c.image(b), at, [0, *(-lo for lo in w.low), 0], [rows, c.summed])
    y = product(b, matrix, b.reshape(c.kernel(b), [c.summed, c.outputs]))
    return Result(b.reshape(y, [c.batch, *c.places, c.outputs]), (BATCH, *range(c.rank), FEATURES))
