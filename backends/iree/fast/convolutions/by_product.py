"""by_product: computes a convolution as one matrix product of its kernel and the windows of its image (im2col)."""

import math

from tiduc.backends.iree.emit.emitter import Emitter
from tiduc.backends.iree.emit.patches import Along, patches
from tiduc.backends.iree.fast.convolutions.convolution_form import BATCH, FEATURES, Convolution, Result
from tiduc.dialect.ops.ir_types import IrValue
from tiduc.dialect.shapes.types import shape


def by_product(b: Emitter, c: Convolution) -> Result:
    """Computes a convolution, which must have one group and no base dilation, as a matrix product."""
    features, results, *spatial = c.layout.kernel
    w = b.reverse(c.w, [spatial[d] for d in c.reversed]) if c.reversed else c.w
    w = b.reshape(b.transpose(w, [results, features, *spatial]), [c.outputs, c.summed])
    y = b.dot_general(w, _patches(b, c), ((), ()), ((1,), (0,)), {})
    return Result(b.reshape(y, [c.outputs, c.batch, *c.places]), (FEATURES, BATCH, *range(c.rank)))


def _patches(b: Emitter, c: Convolution) -> IrValue:
    """Returns the windows of the images as a matrix, with rows (feature, offset) and columns (image, place)."""
    (batch, features, *spatial), w = c.layout.input, c.window
    order = [features, batch, *spatial]
    offsets = [Along(n, d, step) for d, (n, step) in enumerate(zip(w.sizes, w.dilation, strict=True), 2)]
    places = [Along(n, d, step) for d, (n, step) in enumerate(zip(c.places, w.strides, strict=True), 2)]
    along = [Along(shape(c.x)[features], 0), *offsets, Along(c.batch, 1), *places]
    starts = [0, 0, *(-low for low in w.low)]
    return patches(b, b.transpose(c.x, order), along, starts, [c.summed, c.batch * math.prod(c.places)])
