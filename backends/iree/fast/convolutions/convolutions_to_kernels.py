"""convolutions_to_kernels: replaces convolutions by kernels of vectors, on CPUs.

    convolution                       is replaced by

    of images                         a kernel that keeps tiles of sums in registers (channels_first.py)
    whose window has one element      matrix products in tiles (pointwise.py)
    whose image is dilated            one convolution of the image without zeros for each phase (phases.py)
    whose window exceeds the result   a kernel with vectors along features (toward_kernels.py), or one product of w and
                                      the windows of x (by_product.py)
    with batch groups                 toward_kernels.py, or a kernel for gradients of depthwise convolutions
                                      (toward_depthwise.py)
    of volumes                        a convolution of images (`Convolution.folded`)

IREE's code takes up to this many times as long as these kernels, in these cases:

    16          channels come first
    30          volumes
    24          the window is larger than the result, as in the gradient of a kernel
    40 to 100   x is dilated, as in the gradient of a convolution with strides: IREE multiplies the zeros, too
    50          batch groups of several images, as in the gradient of a grouped convolution with strides
    7           groups of several features
    3           channels are last, on CPUs without AVX-512

Images with channels last are transposed first. The kernels read all other arrays in their order in memory.

If the window is larger than the result, the image and the kernel may exchange roles (`Convolution.exchanged`). A small
dilated image then needs no phases, and vectors run along the features of the array that has more of them.
"""

import math

from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import DEFAULT, Emitter, are_floats, rewrite
from tiduc.backends.iree.emit.vectors import MASKED
from tiduc.backends.iree.fast.convolutions.by_product import by_product
from tiduc.backends.iree.fast.convolutions.channels_first import channels_first
from tiduc.backends.iree.fast.convolutions.convolution_form import Convolution, Result
from tiduc.backends.iree.fast.convolutions.phases import by_phases
from tiduc.backends.iree.fast.convolutions.toward_depthwise import toward_depthwise
from tiduc.backends.iree.fast.convolutions.toward_kernels import cycles_toward_kernel, toward_kernel
from tiduc.backends.iree.fault import slow
from tiduc.backends.iree.settings import Registers, Settings
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import shape

_WORK = 2**16
"""The number of multiplications below which IREE's own code is as fast as kernels."""

_FEW_WINDOWS = 1 / 8
"""`by_product` is faster if the number of windows is at most this number times the features of the result."""

_LARGEST_KERNEL = 49
"""The most elements of the window of a network's layer.

A convolution that computes the gradient with respect to a kernel has a larger window, because its window is an image.
"""

_FEW_IMAGES = 8
"""The number of images below which it does not pay to copy a kernel that is larger than all images together."""

_WORK_POINTWISE = 2**17
"""The number that replaces `_WORK` if the window has one element and there is one group: this is a matrix product."""

_WORK_DILATED = 2**14
"""The number that replaces `_WORK` if the image is dilated.

IREE's code for such convolutions does only about a thousand multiplications in a microsecond.
"""


@slow(
    "IREE is slow at convolutions with channels first, large windows or base dilation; tiduc emits kernels of vectors.",
    "convolutions.py: resnet, 56: forward",
)
@stage
def convolutions_to_kernels(module: ir.Module | IrOp, settings: Settings = DEFAULT) -> int:
    """Rewrites the convolutions of a module, in place, that kernels compute faster.

    Returns the number of rewritten ops.
    """
    return rewrite(module, {"stablehlo.convolution": _faster}, settings) if settings.vectors else 0


def _faster(b: Emitter, op: IrOp) -> list[IrValue] | None:
    """Computes a convolution by kernels of vectors. None if IREE's code is as fast, or no kernel supports it."""
    if not are_floats((*op.operands, *op.results), ir.F32Type, ir.F64Type):
        return None
    c = Convolution.of(op)
    if not c.rank or math.prod(shape(op.results[0])) * c.summed < _least(c):
        return None
    result = None if _is_fast(c, b.settings.registers) else computed(b, c)
    return None if result is None else [result.in_layout(b, c.layout.output)]


def _least(c: Convolution) -> int:
    """The number of multiplications below which IREE's code for a convolution such as c is as fast as kernels."""
    if c.has_holes:
        return _WORK_DILATED
    is_product = math.prod(c.window.sizes) == c.groups == c.batch_groups == 1
    return _WORK_POINTWISE if is_product else _WORK


def _is_fast(c: Convolution, registers: Registers) -> bool:
    """Whether IREE's own code is as fast as kernels.

    Returns true for images with channels last if the convolution is depthwise, or has one group and a window of one
    element. Returns true for most other convolutions with channels last on CPUs with AVX-512.
    """
    if c.rank != 2 or c.layout.input[1] != 3 or c.has_holes or c.batch_groups > 1:
        return False
    count = math.prod(c.window.sizes)
    is_dense = c.groups == 1 and not (c.has_few_places or (count > 1 and 1 in c.window.sizes))
    return c.groups == max(c.features, c.outputs) > 1 or (
        is_dense and (count == 1 or registers.bits == MASKED)
    )


def computed(b: Emitter, c: Convolution) -> Result | None:
    """Computes a convolution by kernels of vectors. Returns None if no kernel supports it."""
    if c.rank > 2:
        y = computed(b, c.folded(b))
        return None if y is None else c.unfolded(b, y)
    if c.batch_groups > 1:
        return _of_batch_groups(b, c)
    few = _of_few_places(b, c) if c.has_few_places and c.groups == 1 else None
    if few is not None:
        return few
    c = c.in_place(b).spatial_last(b)
    return by_phases(b, c) if c.has_holes else channels_first(b, c)


def _of_batch_groups(b: Emitter, c: Convolution) -> Result | None:
    """Computes a convolution with batch groups, such as the gradient of a grouped convolution's kernel.

    Returns None if the image is dilated and cannot exchange roles with the kernel.
    """
    if c.batch_groups == c.batch == c.outputs and not c.has_holes:
        return toward_depthwise(b, c.in_order(b))
    return _toward_kernel(b, c)


def _of_few_places(b: Emitter, c: Convolution) -> Result | None:
    """Computes a convolution whose window has more elements than the result has places.

    Returns None if `channels_first` or `by_phases` is faster, or if the image is dilated and cannot exchange roles with
    the kernel. `by_product` reads a layer's kernel without a copy. `toward_kernel` copies the kernel in another order,
    which pays only for small kernels or many images.
    """
    features, results, *spatial = c.layout.kernel
    is_in_order = [results, features, *spatial] == list(range(c.rank + 2)) and not c.reversed
    windows = c.batch * math.prod(c.places)
    if is_in_order and not c.has_holes and windows <= _FEW_WINDOWS * c.outputs:
        return by_product(b, c)
    is_of_layer = math.prod(c.window.sizes) <= _LARGEST_KERNEL
    if is_of_layer and c.batch < _FEW_IMAGES and math.prod(shape(c.w)) > math.prod(shape(c.x)):
        return None
    return _toward_kernel(b, c)


def _toward_kernel(b: Emitter, c: Convolution) -> Result | None:
    """Computes a convolution by `toward_kernel`, and exchanges the image and the kernel if that is faster.

    Returns None if the image is dilated and cannot exchange roles with the kernel.
    """
    exchanged = c.exchanged()
    forms = [each for each in (c, exchanged) if each is not None and not each.has_holes]
    if not forms:
        return None
    best = min(forms, key=lambda each: cycles_toward_kernel(each, b.settings.registers))
    y = toward_kernel(b, best.in_order(b))
    return c.restored(b, y) if best is exchanged else y
