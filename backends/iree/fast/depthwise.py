"""Convolutions with groups as depthwise convolutions with channels last, for which IREE emits vector code.

of_batch_groups: batch groups, as in the gradients of the kernels of depthwise convolutions. The pairs (n, c) of batch
and feature are the features of the depthwise convolution.

    y[c, p] = sum_(n, j) x[c, n, p + j] w[n, c, j]
    ->  z[p, (n, c)] = sum_j x[p + j, (n, c)] w[j, (n, c)];  y[c, p] = sum_n z[p, n, c]

of_small_groups: feature groups with few features. The features i of a group become part of the last spatial dimension,
with a copy for each feature o of the group's result.

    y[p, (g, o)] = sum_(j, i) x[p + j, (g, i)] w[j, i, (g, o)]
    ->  z[(p, i), (g, o)] = x[p, (g, i)];  y[p, (g, o)] = sum_(j, i) z[(p + j, i), (g, o)] w[(j, i), (g, o)]
"""

import math
from dataclasses import replace

from tiduc.backends.iree.emitter import Emitter
from tiduc.backends.iree.fast.convolution_form import BATCH, FEATURES, Convolution, Result, channels_last
from tiduc.backends.iree.fast.patches import zero
from tiduc.dialect.types import shape

_GROUP = 8
"""The most features of a small group; the image is copied for each result of a group."""


def of_batch_groups(b: Emitter, c: Convolution, groups: int) -> Result:
    """The result of a convolution with this batch group count; a group has one image and one output."""
    batch, features, *spatial = c.layout.input
    count = c.features * groups
    sizes = [c.x.type.shape[d] for d in spatial]
    x = b.reshape(b.transpose(c.x, [*spatial, features, batch]), [1, *sizes, count])
    kernel = b.reshape(c.kernel(b), [*c.window.sizes, 1, count])
    alone = Convolution(x, kernel, channels_last(c.rank), c.window, c.places, groups=count)
    z = b.reshape(alone.channels_last(b).value, [math.prod(c.places), c.features, groups])
    y = b.reduce(z, zero(b, z), [1])
    y = b.reshape(y, [1, *c.places, groups])
    return Result(y, (BATCH, *range(c.rank), FEATURES))


def of_small_groups(b: Emitter, c: Convolution) -> Result:
    """The result of a convolution for which `has_small_groups` holds."""
    each, outputs, w, places = c.features // c.groups, c.outputs // c.groups, c.window, c.rank + 1
    x = c.padded_image(b)
    *sizes, last, _ = shape(x)
    x = b.reshape(x, [*sizes, last, c.groups, each])
    x = b.transpose(x, [*range(places), places + 1, places])
    x = b.broadcast_in_dim(x, list(range(places + 2)), [*sizes, last, each, c.groups, outputs])
    x = b.reshape(x, [*sizes, last * each, c.outputs])
    kernel = b.reshape(c.kernel(b), [*w.sizes[:-1], w.sizes[-1] * each, 1, c.outputs])
    wide = [(*n[:-1], n[-1] * each) for n in (w.sizes, w.strides)]
    window = replace(w.unpadded(), sizes=wide[0], strides=wide[1])
    return Convolution(x, kernel, channels_last(c.rank), window, c.places, groups=c.outputs).channels_last(b)


def has_small_groups(c: Convolution) -> bool:
    """Whether groups have few features, and there is a window, not dilated along the last dimension."""
    few = max(c.features, c.outputs) <= _GROUP * c.groups
    return few and c.rank > 0 and c.window.dilation[-1] == 1
