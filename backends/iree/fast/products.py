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
from tiduc.backends.iree.fast.patches import Along, patches, product, zero
from tiduc.dialect.types import shape, with_shape

PLACES, WINDOW = 0, 1
"""The labels of the dimensions of patches, beside `BATCH` and `FEATURES`."""

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
        y = b.stored(
            product(b, kernel, b.transpose(patch_matrix(b, c, BATCH, PLACES, FEATURES, WINDOW), [1, 0]))
        )
        return Result(b.reshape(y, [c.outputs, c.batch, *c.places]), (FEATURES, BATCH, *spatially))
    parts = _parts(c.outputs, c.summed, rows)
    if c.batch >= _COLUMNS or parts > 1:
        y = b.stored(_summed_product(b, kernel, patch_matrix(b, c, FEATURES, WINDOW, PLACES, BATCH), parts))
        return Result(b.reshape(y, [c.outputs, *c.places, c.batch]), (FEATURES, *spatially, BATCH))
    y = b.stored(product(b, patch_matrix(b, c, BATCH, PLACES, FEATURES, WINDOW), b.transpose(kernel, [1, 0])))
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


def patch_matrix(b: Emitter, c: Convolution, *order: int) -> Any:
    """The patches of all places as a matrix; `order` has the labels of its two row and two column dimensions.

    x is transposed first, such that its dimensions are in the order of the patches' last dimensions along them.
    """
    (batch, features, *spatial), w = c.layout.input, c.window
    groups = {
        BATCH: [(batch, c.batch, 1)],
        FEATURES: [(features, c.summed // math.prod(w.sizes), 1)],
        PLACES: list(zip(spatial, c.places, w.strides, strict=True)),
        WINDOW: list(zip(spatial, w.sizes, w.dilation, strict=True)),
    }
    sizes = [math.prod(n for label in of for _, n, _ in groups[label]) for of in (order[:2], order[2:])]
    along = [each for label in order for each in groups[label]]
    moved = list(dict.fromkeys(d for d, *_ in along[::-1]))[::-1]
    low = dict(zip(spatial, w.low, strict=True))
    at, starts = [Along(n, moved.index(d), step) for d, n, step in along], [-low.get(d, 0) for d in moved]
    return patches(b, b.transpose(c.x, moved), at, starts, sizes)


def by_offsets(b: Emitter, c: Convolution) -> Result | None:
    """The result, by a product with the patches of small windows; None if the patches would be too large."""
    count, rows = math.prod(c.window.sizes), c.batch * math.prod(c.places)
    if count > _COUNT or rows * c.summed * c.width > _BYTES:
        return None
    matrix = patch_matrix(b, c, BATCH, PLACES, WINDOW, FEATURES)
    y = product(b, matrix, b.reshape(c.kernel(b), [c.summed, c.outputs]))
    return Result(b.reshape(y, [c.batch, *c.places, c.outputs]), (BATCH, *range(c.rank), FEATURES))
