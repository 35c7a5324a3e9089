"""Products: sums of nothing, and convolutions of complex numbers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch_mlir import ir

from tiduc.dialect.types import element, is_complex, is_open, shape, with_element
from tiduc.passes.iree.emitter import Emitter, legalize
from tiduc.passes.iree.excess import drop_excess


@legalize("stablehlo.dot_general", "stablehlo.convolution")
def product(b: Emitter, op: Any) -> Sequence[Any] | None:
    """Over a dimension of size 0 the compiler crashes: zero. Padded complex convolutions crash it: four real ones.

    An `algorithm`, which does not compile, is left out: the products are no less precise. Nor do elements compile that
    the only window does not reach.
    """
    x, y = op.operands
    type_ = op.results[0].type
    if is_open(type_) or is_open(x.type) or is_open(y.type):
        return None
    if 0 in shape(x) or 0 in shape(y):
        return [b.constant(0, type_)]
    if "algorithm" in op.attributes:
        del op.attributes["algorithm"]
    if op.name == "stablehlo.convolution":
        drop_excess(b, op)
        x = op.operands[0]
    padding = op.attributes["padding"] if "padding" in op.attributes else None
    if padding is None or not is_complex(type_) or not np.any(np.array(padding)):
        return None
    real = with_element(type_, element(type_).element_type)
    (xr, xi), (yr, yi) = ((b.real(v), b.imag(v)) for v in (x, y))
    rr, ii, ri, ir_ = (
        b.again(op, {0: u, 1: v}, [real])[0] for u, v in ((xr, yr), (xi, yi), (xr, yi), (xi, yr))
    )
    return [b.complex(b.subtract(rr, ii), b.add(ri, ir_))]


@legalize("stablehlo.batch_norm_grad")
def batch_norm_grad(b: Emitter, op: Any) -> Sequence[Any] | None:
    """Does not compile: its definition, with n elements a feature and h = (x - mean) / sqrt(variance + epsilon),

    dx = scale / sqrt(variance + epsilon) (dy - sum(dy) / n - h sum(dy h) / n),  dscale = sum(dy h),  doffset = sum(dy).
    """
    x, scale, mean, variance, dy = op.operands
    feature = ir.IntegerAttr(op.attributes["feature_index"]).value
    others = [i for i in range(len(shape(x))) if i != feature]
    count = 1
    for i in others:
        count *= shape(x)[i]

    def wide(v: Any) -> Any:
        return b.broadcast_in_dim(v, [feature], x.type)

    epsilon = b.like(ir.FloatAttr(op.attributes["epsilon"]).value, variance)
    inverse = b.divide(b.like(1, variance), b.sqrt(b.add(variance, epsilon)))
    h = b.multiply(b.subtract(x, wide(mean)), wide(inverse))
    doffset, dscale = b.reduce_sum(dy, others), b.reduce_sum(b.multiply(dy, h), others)
    n = b.like(max(count, 1), doffset)
    inner = b.subtract(dy, wide(b.divide(doffset, n)))
    inner = b.subtract(inner, b.multiply(h, wide(b.divide(dscale, n))))
    return [b.multiply(inner, wide(b.multiply(scale, inverse))), dscale, doffset]
