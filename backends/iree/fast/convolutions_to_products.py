"""convolutions_to_products: convolutions with channels last, or as products of matrices, for CPUs.

    y = convolution(x, w), channels first      ->  transpose(convolution(transpose x, transpose w))
    y = convolution(x, w), few places          ->  patches = the windows of x (im2col);  y = patches w
    y = convolution(x with holes, w)           ->  convolutions of x, one for each phase of the result
    y = convolution(x, w), small groups        ->  a depthwise convolution of an image with copied features
    y = convolution(x, w), batch groups        ->  a depthwise convolution with channels last; then sums

Times of IREE's code in comparison: up to 16 times as long if channels come first; the convolution is a dispatch of its
own (kernels.py), else IREE would move the transposes back into it. Up to 24 times as long as a product if the window is
larger than the result, as in the gradient of a kernel (products.py). 40 to 100 times as long if x is dilated, as in the
gradient of a convolution with strides and in transposed convolutions, since IREE stores the zeros and multiplies them
(phases.py). 7 times as long if there are groups of several features (depthwise.py).
"""

import math
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter, rewrite
from tiduc.backends.iree.fast.convolution_form import Convolution
from tiduc.backends.iree.fast.depthwise import has_small_groups, of_batch_groups, of_small_groups
from tiduc.backends.iree.fast.large_kernels import by_kernel
from tiduc.backends.iree.fast.phases import by_phases
from tiduc.backends.iree.fast.products import by_offsets, by_places
from tiduc.backends.iree.fault import slow
from tiduc.dialect.context import stage
from tiduc.dialect.types import element, is_complex, shape
from tiduc.dialect.windows import group_counts

_WORK = 2**20
"""The number of multiplications below which IREE's own code is as fast."""

_WORK_DEPTHWISE = 2**16
"""This limit for depthwise convolutions."""

_WORK_DILATED = 2**14
"""This limit for dilated images, for which IREE computes about a thousand multiplications in a microsecond."""


@slow(
    "Is slow at convolutions with channels first, large windows or holes; channels last, products or phases instead."
)
@stage
def convolutions_to_products(module: Any) -> int:
    """Rewrites convolutions in place where that is faster; gives their number."""
    return rewrite(module, {"stablehlo.convolution": _faster})


def _faster(b: Emitter, op: Any) -> list[Any] | None:
    """The result of a convolution, computed by other ops; None if these would not be faster."""
    (x, w), y = op.operands, op.results[0]
    types = (x.type, w.type, y.type)
    if any(not t.has_static_shape or 0 in t.shape for t in types) or is_complex(y):
        return None
    if len({element(v) for v in (x, w, y)}) > 1 or not isinstance(element(y), ir.F32Type | ir.F64Type):
        return None
    c = Convolution.of(op)
    groups, batches = group_counts(op)
    if batches > 1:
        return of_batch_groups(b, c, batches) if math.prod(shape(y)) * c.summed >= _WORK_DEPTHWISE else None
    if groups > 1 and not (groups == c.features == c.outputs or has_small_groups(c)):
        return None
    holes = math.prod(c.window.base) > 1
    least = _WORK_DILATED if holes else _WORK_DEPTHWISE if groups > 1 else _WORK
    if math.prod(shape(y)) * c.summed < least:
        return None
    result = by_kernel(b, c) if groups == 1 else None
    if result is None:
        result = by_phases(b, c, faster) if holes else faster(b, c)
    return None if result is None else [result.in_layout(b, c.layout.output)]


def faster(b: Emitter, c: Convolution) -> Any | None:
    """The result of a convolution whose image is not dilated; None if IREE's own code is as fast."""
    if 1 < c.groups < max(c.features, c.outputs):
        return of_small_groups(b, c)
    count, y = math.prod(c.window.sizes), None
    if c.groups == 1 and math.prod(c.places) < count:
        y = by_places(b, c)
    if c.groups == 1 and y is None and 1 in c.window.sizes and count > 1:
        y = by_offsets(b, c)
    if y is None and c.layout.input[1] < len(c.places) + 1:
        y = c.channels_last(b)
    return y
