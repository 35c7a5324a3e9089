"""convolutions_to_products: convolutions with channels last, or as products of matrices, for CPUs.

    y = convolution(x, w), channels first      ->  transpose(convolution(transpose x, transpose w))
    y = convolution(x, w), few places          ->  patches = the windows of x, side by side;  y = patches w
    y = convolution(x with holes, w)           ->  convolutions of x, one for each phase of the result
    y = convolution(x, w), small groups        ->  each feature alone, of an image that has a copy for each result
    y = convolution(x, w), batch groups        ->  each feature of each image alone, with channels last; then sums

IREE's code for convolutions takes up to 16 times as long if channels come first. The convolution is a dispatch of its
own (kernels.py), else IREE would move the transposes back into it. If the window is larger than the result, as in the
gradient of a kernel, IREE's code takes up to 24 times as long as a product (products.py). If x is dilated, as in the
gradient of an image under a stride and in transposed convolutions, IREE stores the zeros and multiplies them: 40 to 100
times as long (phases.py). If there are groups of several features, IREE's code takes 7 times as long (depthwise.py).
"""

import math
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter, rewrite
from tiduc.backends.iree.fast.convolution_form import Convolution
from tiduc.backends.iree.fast.depthwise import of_each_image, of_small_groups, small
from tiduc.backends.iree.fast.large_kernels import by_kernel
from tiduc.backends.iree.fast.phases import by_phases
from tiduc.backends.iree.fast.products import by_offsets, by_places
from tiduc.backends.iree.fault import slow
from tiduc.dialect.context import stage
from tiduc.dialect.types import element, is_complex, shape
from tiduc.dialect.windows import group_counts

_WORK = 2**20
"""Multiplications; for fewer, IREE's own code is as good."""

_WORK_ALONE = 2**16
"""The same for convolutions of each feature alone."""

_WORK_OF_HOLES = 2**14
"""The same for dilated images, of which IREE computes some thousand multiplications in a microsecond."""


@slow(
    "Is slow at convolutions with channels first, large windows or holes; channels last, products or phases instead."
)
@stage
def convolutions_to_products(module: Any) -> int:
    """Rewrites convolutions in place if that pays; gives their number."""
    return rewrite(module, {"stablehlo.convolution": _faster})


def _faster(b: Emitter, op: Any) -> list[Any] | None:
    """The result of a convolution in a faster way; None if there is none, or if the convolution computes little."""
    (x, w), y = op.operands, op.results[0]
    types = (x.type, w.type, y.type)
    if any(not t.has_static_shape or 0 in t.shape for t in types) or is_complex(y):
        return None
    if len({element(v) for v in (x, w, y)}) > 1 or not isinstance(element(y), ir.F32Type | ir.F64Type):
        return None
    c = Convolution.of(op)
    groups, batches = group_counts(op)
    if batches > 1:
        return of_each_image(b, c, batches) if math.prod(shape(y)) * c.summed >= _WORK_ALONE else None
    if groups > 1 and not (groups == c.features == c.outputs or small(c)):
        return None
    holes = math.prod(c.window.base) > 1
    least = _WORK_OF_HOLES if holes else _WORK_ALONE if groups > 1 else _WORK
    if math.prod(shape(y)) * c.summed < least:
        return None
    result = by_kernel(b, c) if groups == 1 else None
    if result is None:
        result = by_phases(b, c, faster) if holes else faster(b, c)
    return None if result is None else [result.in_layout(b, c.layout.output)]


def faster(b: Emitter, c: Convolution) -> Any | None:
    """A convolution of an image without holes, as a `Result`; None if IREE's own code is as good."""
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
