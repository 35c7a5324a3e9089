"""gpu_convolutions: convolutions on NVIDIA's GPUs as products of the kernel and the windows of the image (im2col).

    y[o, (n, p)] = sum over s of w[o, s] patches[s, (n, p)],  s = (feature, offset in the window)

One kernel copies the patches, and `gpu_products` takes the product. IREE's own convolutions read the image from global
memory for each product: they take 10 to 20 times as long.
"""

import math
from dataclasses import replace
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter, is_static, rewrite
from tiduc.backends.iree.fast.convolution_form import BATCH, FEATURES, Convolution, Result
from tiduc.backends.iree.fast.gpu_products import LEAST_WORK, NARROWEST
from tiduc.backends.iree.fast.patches import Along, patches, zero
from tiduc.backends.iree.fault import slow
from tiduc.dialect.context import stage
from tiduc.dialect.types import shape
from tiduc.dialect.windows import group_counts

_MOST_BYTES = 2**28
"""The largest size of the patches."""


@slow(
    "Reads images of f32 from global memory for each product of a convolution; copies windows, takes one product."
)
@stage
def gpu_convolutions(module: Any) -> int:
    """Rewrites the convolutions of a module in place; gives their number."""
    return rewrite(module, {"stablehlo.convolution": _as_product})


def _as_product(b: Emitter, op: Any) -> list[Any] | None:
    """The result of a convolution as a product; None for one that stays."""
    arrays = (*op.operands, op.results[0])
    if not all(is_static(v.type) and isinstance(v.type.element_type, ir.F32Type) for v in arrays):
        return None
    if group_counts(op) != (1, 1) or any(0 in shape(v) for v in arrays):
        return None
    c = Convolution.of(op)
    columns = c.batch * math.prod(c.places)
    if min(c.outputs, c.summed, columns) < NARROWEST or c.outputs * c.summed * columns < LEAST_WORK:
        return None
    if c.summed * columns * c.width > _MOST_BYTES:
        return None
    features, results, *spatial = c.layout.kernel
    w = b.reverse(c.w, [spatial[d] for d in c.reversed]) if c.reversed else c.w
    w = b.reshape(b.transpose(w, [results, features, *spatial]), [c.outputs, c.summed])
    y = b.dot_general(w, _patches(b, _without_holes(b, c)), ((), ()), ((1,), (0,)), {})
    y = b.reshape(y, [c.outputs, c.batch, *c.places])
    return [Result(y, (FEATURES, BATCH, *range(c.rank))).in_layout(b, c.layout.output)]


def _patches(b: Emitter, c: Convolution) -> Any:
    """The windows of the image as a matrix: a row for each feature and offset, a column for each image and place."""
    (batch, features, *spatial), w = c.layout.input, c.window
    order = [features, batch, *spatial]
    offsets = [Along(n, d, step) for d, (n, step) in enumerate(zip(w.sizes, w.dilation, strict=True), 2)]
    places = [Along(n, d, step) for d, (n, step) in enumerate(zip(c.places, w.strides, strict=True), 2)]
    along = [Along(shape(c.x)[features], 0), *offsets, Along(c.batch, 1), *places]
    starts = [0, 0, *(-low for low in w.low)]
    return patches(b, b.transpose(c.x, order), along, starts, [c.summed, c.batch * math.prod(c.places)])


def _without_holes(b: Emitter, c: Convolution) -> Convolution:
    """The convolution of an image that has the zeros between its elements."""
    if math.prod(c.window.base) == 1:
        return c
    interior = [0] * len(shape(c.x))
    for d, base in zip(c.layout.input[2:], c.window.base, strict=True):
        interior[d] = base - 1
    x = b.pad(c.x, zero(b, c.x), [0] * len(interior), [0] * len(interior), interior)
    return replace(c, x=x, window=replace(c.window, base=(1,) * c.rank))
