"""of_each_image: convolutions of batch groups, such as the gradients of kernels that convolve each feature alone.

    y[c, p] = sum_(n, j) x[c, n, p + j] w[n, c, j]
    z[p, (n, c)] = sum_j x[p + j, (n, c)] w[j, (n, c)];  y[c, p] = sum_n z[p, n, c]

The features (n, c) are convolved alone, with channels last: vectors of features are multiplied and added.
"""

import math
from typing import Any

from tiduc.backends.iree.emitter import Emitter
from tiduc.backends.iree.fast.convolution_form import BATCH, FEATURES, Convolution, Result, channels_last
from tiduc.backends.iree.fast.patches import zero


def of_each_image(b: Emitter, c: Convolution, groups: int) -> list[Any] | None:
    """The result of a convolution with this batch group count; None unless a group has one image and one output."""
    if not groups == c.batch == c.outputs or set(c.window.base) != {1} or c.groups > 1:
        return None
    batch, features, *spatial = c.layout.input
    count = c.features * groups
    sizes = [c.x.type.shape[d] for d in spatial]
    x = b.reshape(b.transpose(c.x, [*spatial, features, batch]), [1, *sizes, count])
    kernel = b.reshape(c.kernel(b), [*c.window.sizes, 1, count])
    alone = Convolution(x, kernel, channels_last(c.rank), c.window, c.places, groups=count)
    z = b.reshape(alone.channels_last(b).value, [math.prod(c.places), c.features, groups])
    y = b.reduce(z, zero(b, z), [1])
    y = b.reshape(y, [1, *c.places, groups])
    return [Result(y, (BATCH, *range(c.rank), FEATURES)).in_layout(b, c.layout.output)]
