"""gpu_convolutions: on NVIDIA's GPUs, computes a convolution as a matrix product of the kernel and patches (im2col).

    y[o, (n, p)] = sum over s of w[o, s] patches[s, (n, p)],  s = (feature, offset in the window)

Each column of the matrix `patches` is a copy of one window: the window at position p of example n. The pass
`gpu_products` later rewrites the product. IREE's own convolutions read the image from global memory for each
multiplication, and take 10 to 20 times as long.
"""

import math
from dataclasses import replace

from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import Emitter, are_floats, rewrite
from tiduc.backends.iree.emit.gpu_tiles import LEAST_WORK, NARROWEST
from tiduc.backends.iree.emit.patches import zero
from tiduc.backends.iree.fast.convolutions.by_product import by_product
from tiduc.backends.iree.fast.convolutions.convolution_form import Convolution
from tiduc.backends.iree.fault import slow
from tiduc.dialect.facts.windows import group_counts
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import shape

_MOST_BYTES = 2**28
"""The most bytes of the matrix `patches` of a rewritten convolution."""


@slow(
    "IREE reads images from global memory for each product of a convolution; tiduc copies windows for one product.",
    "gpu_networks.py: resnet18",
)
@stage
def gpu_convolutions(module: ir.Module | IrOp) -> int:
    """Rewrites convolutions as products, in place, if this is faster. Returns the number of rewritten convolutions."""
    return rewrite(module, {"stablehlo.convolution": _as_product})


def _as_product(b: Emitter, op: IrOp) -> list[IrValue] | None:
    """Computes a convolution as a product.

    Returns None if the convolution has groups, if the product is small, or if `patches` would need too much memory.
    Also returns None for types other than f32, f16 and bf16.
    """
    arrays = (*op.operands, *op.results)
    if not are_floats(arrays, ir.F32Type, ir.F16Type, ir.BF16Type) or group_counts(op) != (1, 1):
        return None
    c = Convolution.of(op)
    columns = c.batch * math.prod(c.places)
    if min(c.outputs, c.summed, columns) < NARROWEST or c.outputs * c.summed * columns < LEAST_WORK:
        return None
    if c.summed * columns * c.width > _MOST_BYTES:
        return None
    return [by_product(b, _without_holes(b, c)).in_layout(b, c.layout.output)]


def _without_holes(b: Emitter, c: Convolution) -> Convolution:
    """Returns an equal convolution without base dilation: a pad puts the zeros between the elements of the image."""
    if math.prod(c.window.base) == 1:
        return c
    interior = [0] * len(shape(c.x))
    for d, base in zip(c.layout.input[2:], c.window.base, strict=True):
        interior[d] = base - 1
    x = b.pad(c.x, zero(b, c.x), [0] * len(interior), [0] * len(interior), interior)
    return replace(c, x=x, window=replace(c.window, base=(1,) * c.rank))
