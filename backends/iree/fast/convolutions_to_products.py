"""convolutions_to_products: convolutions with channels last, or as products of matrices, for CPUs.

    y = convolution(x, w), channels first      ->  transpose(convolution(transpose x, transpose w))
    y = convolution(x, w), few places          ->  patches = the windows of x (im2col);  y = patches w
    y = convolution(x with holes, w)           ->  convolutions of x, one for each phase of the result
    y = convolution(x, w), small groups        ->  a depthwise convolution of an image with copied features
    y = convolution(x, w), batch groups        ->  a depthwise convolution with channels last; then sums
    channels first, vectors of 512 bits        ->  kernels of vectors (channels_first.py, toward_kernels.py,
                                                   toward_depthwise.py)

Times of IREE's code in comparison: up to 16 times as long if channels come first; the convolution is a dispatch of its
own (kernels.py), else IREE would move the transposes back into it. Up to 24 times as long as a product if the window is
larger than the result, as in the gradient of a kernel (products.py). 40 to 100 times as long if x is dilated, as in the
gradient of a convolution with strides and in transposed convolutions, since IREE stores the zeros and multiplies them
(phases.py). 7 times as long if there are groups of several features (depthwise.py).

IREE's convolutions use half of the registers of AVX-512. Kernels of vectors use them, and read images and kernels in
their order in memory: 0.5 to 0.9 times the time of the other forms, and no patches.
"""

import math
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import DEFAULT, Emitter, rewrite
from tiduc.backends.iree.fast.channels_first import channels_first, has_channels_first
from tiduc.backends.iree.fast.convolution_form import Convolution, Result
from tiduc.backends.iree.fast.depthwise import has_small_groups, of_batch_groups, of_small_groups
from tiduc.backends.iree.fast.large_kernels import by_kernel, by_rows
from tiduc.backends.iree.fast.phases import by_phases, by_phases_of_planes
from tiduc.backends.iree.fast.products import by_offsets, by_places
from tiduc.backends.iree.fast.toward_depthwise import toward_depthwise
from tiduc.backends.iree.fast.toward_kernels import toward_kernel
from tiduc.backends.iree.fault import slow
from tiduc.backends.iree.settings import Settings
from tiduc.dialect.context import stage
from tiduc.dialect.types import element, is_complex, shape
from tiduc.dialect.windows import group_counts

_WORK = 2**20
"""The number of multiplications below which IREE's own code is as fast."""

_WORK_POINTWISE = 2**17
"""This limit for windows of one place, which kernels of vectors take, as `products_in_tiles` takes products."""

_WORK_DEPTHWISE = 2**16
"""This limit for depthwise convolutions."""

_RESULTS = 4
"""The fewest results of a group for which an image is read once for all of them."""

_WORK_DILATED = 2**14
"""This limit for dilated images, for which IREE computes about a thousand multiplications in a microsecond."""


@slow(
    "Is slow at convolutions with channels first, large windows or holes; channels last, products, phases, or kernels."
)
@stage
def convolutions_to_products(module: Any, settings: Settings = DEFAULT) -> int:
    """Rewrites convolutions in place where that is faster; gives their number."""
    return rewrite(module, {"stablehlo.convolution": _faster}, settings)


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
        result = _of_batch_groups(b, c, batches)
        return None if result is None else [result.in_layout(b, c.layout.output)]
    in_vectors = b.settings.wide and takes_vectors(c)
    if groups > 1 and not (in_vectors or groups == c.features == c.outputs or has_small_groups(c)):
        return None
    holes = math.prod(c.window.base) > 1
    dense = _WORK_POINTWISE if in_vectors and math.prod(c.window.sizes) == 1 else _WORK
    least = _WORK_DILATED if holes else _WORK_DEPTHWISE if groups > 1 else dense
    if math.prod(shape(y)) * c.summed < least:
        return None
    result = in_registers(b, c) if in_vectors else None
    if result is None:
        result = by_kernel(b, c)
    if result is None:
        result = by_phases(b, c, faster) if holes else faster(b, c)
    return None if result is None else [result.in_layout(b, c.layout.output)]


def _of_batch_groups(b: Emitter, c: Convolution, groups: int) -> Result | None:
    """The result with batch groups; None for little work, or if a group has several images or outputs."""
    if not groups == c.batch == c.outputs or set(c.window.base) != {1} or c.groups > 1:
        return None
    if c.outputs * math.prod(c.places) * c.summed < _WORK_DEPTHWISE:
        return None
    return toward_depthwise(b, c) if b.settings.wide and c.keeps_order else of_batch_groups(b, c, groups)


def takes_vectors(c: Convolution) -> bool:
    """Whether kernels of vectors may compute a convolution: channels come first.

    Images are read once for several results, unless each group has one channel: a depthwise convolution.
    """
    return has_channels_first(c) and (c.groups in (1, c.features) or c.outputs >= _RESULTS * c.groups)


def in_registers(b: Emitter, c: Convolution) -> Result | None:
    """The result of a convolution for which `takes_vectors` holds; None if other code is faster."""
    if math.prod(c.window.base) > 1:
        return by_phases_of_planes(b, c.in_place(b))
    if math.prod(c.places) < math.prod(c.window.sizes):
        y = by_rows(b, c)  # it reads w in place, where `toward_kernel` copies the window
        return toward_kernel(b, c) if y is None else y
    return channels_first(b, c.in_place(b))


def faster(b: Emitter, c: Convolution) -> Any | None:
    """The result of a convolution whose image is not dilated; None if IREE's own code is as fast."""
    if 1 < c.groups < max(c.features, c.outputs):
        return of_small_groups(b, c) if has_small_groups(c) else None
    count, y = math.prod(c.window.sizes), None
    if c.groups == 1 and math.prod(c.places) < count:
        y = by_places(b, c)
    if c.groups == 1 and y is None and 1 in c.window.sizes and count > 1:
        y = by_offsets(b, c)
    if y is None and c.layout.input[1] < len(c.places) + 1:
        y = c.channels_last(b)
    return y
