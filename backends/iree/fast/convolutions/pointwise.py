"""pointwise: computes convolutions whose window has one element as matrix products, and the gradients of their kernels.

    y[n, o, p] = sum_c w[o, c] x[n, c, p]       a convolution, for the places p of an image
    y[o, c] = sum_p w[o, p] x[c, p]             the gradient with respect to a kernel, for one image

The arrays are read without a copy, except that images are copied to planes (planes.py) if the window has strides or
padding.
"""

import math
from collections.abc import Sequence

from tiduc.backends.iree.emit.emitter import Emitter
from tiduc.backends.iree.fast.convolutions.convolution_form import Convolution
from tiduc.backends.iree.fast.convolutions.planes import Planes
from tiduc.backends.iree.fast.products.matrices import MatrixOperand
from tiduc.backends.iree.fast.products.products_in_tiles import in_tiles, is_large
from tiduc.dialect.ops.ir_types import IrValue
from tiduc.dialect.shapes.types import shape


def pointwise(b: Emitter, c: Convolution, planes: Planes) -> IrValue | None:
    """Computes a convolution as a matrix product. Returns the result as (batch, features, places).

    Returns None if the window has several elements, if there are groups, or if the product is small. `planes` comes
    from `Planes.of`.
    """
    layout, count = c.layout, math.prod(planes.places)
    sizes = [c.outputs, c.features, count]
    if c.groups > 1 or math.prod(shape(c.w)[d] for d in layout.kernel[2:]) > 1:
        return None
    if not is_large(sizes, c.batch):
        return None
    order = sorted((layout.kernel[1], layout.kernel[0]))
    w = b.reshape(c.w, [shape(c.w)[d] for d in order])
    batch, features, *spatial = layout.input
    x = _places(b, planes, b.transpose(c.x, [batch, features, *spatial]), [c.batch, c.features])
    kept, summed = order.index(layout.kernel[1]), order.index(layout.kernel[0])
    return in_tiles(b, MatrixOperand(w, (), kept, summed), MatrixOperand(x, (0,), 2, 1))


def toward_pointwise(b: Emitter, c: Convolution, planes: Planes) -> IrValue | None:
    """Computes the gradient with respect to a kernel whose window has one element, as a matrix product.

    The dimensions of the returned matrix are in the order of the convolution's result. Returns None if the window has
    several elements, if there are several images or batch groups, or if the product is small. All arrays have channels
    first. `planes` comes from `Planes.of_kernel`.
    """
    count = math.prod(planes.places)
    if (
        math.prod(planes.sizes) > 1
        or c.features > 1
        or c.batch_groups > 1
        or not is_large([c.outputs, count, c.batch])
    ):
        return None
    x = MatrixOperand(_places(b, planes, c.x, [c.batch]), (), 0, 1)
    w = MatrixOperand(b.reshape(c.w, [c.outputs, count]), (), 0, 1)
    return in_tiles(b, x, w) if c.layout.output[1] else in_tiles(b, w, x)


def _places(b: Emitter, planes: Planes, x: IrValue, sizes: Sequence[int]) -> IrValue:
    """Returns the elements of x that windows of one element read, as an array of shape (*sizes, places)."""
    images = b.reshape(x, [*shape(x)[:2], *planes.image])
    return b.reshape(planes.filled(b, images, 0), [*sizes, math.prod(planes.places)])
