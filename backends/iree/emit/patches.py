"""patches: copies the windows of an array, which may overlap, into a matrix (im2col), by one `linalg.generic`.

    y[h, w, p, q, n] = x[h + p - 1, w + q - 1, n]
    y = patches(b, x, [(H, 0, 1), (W, 1, 1), (3, 0, 1), (3, 1, 1), (N, 2, 1)], [-1, -1, 0], [H, W, 3, 3, N])

Slices and a concatenation would take longer to compile: each slice would be one or two dispatches, and a dispatch takes
0.05 seconds.
"""

from collections.abc import Sequence
from typing import NamedTuple

from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import Emitter
from tiduc.backends.iree.emit.kernels import in_own_dispatch
from tiduc.dialect.ops.ir_types import IrValue
from tiduc.dialect.shapes.types import element, shape, with_shape


class Along(NamedTuple):
    """A dimension of the patches: its size, the array's dimension along which it runs, and its step in elements."""

    size: int
    dimension: int
    step: int = 1


def patches(
    b: Emitter, x: IrValue, dimensions: Sequence[Along], starts: Sequence[int], to: Sequence[int]
) -> IrValue:
    """Copies elements of x to an array with one dimension for each of `dimensions`, and reshapes it to `to`.

    The copy's element at indices i is x[j], where j[d] is starts[d] plus the sum of i[k] * dimensions[k].step over the
    k with dimensions[k].dimension = d. It is 0 if j is out of range.
    """
    last = list(starts)
    for size, d, step in dimensions:
        last[d] += (size - 1) * step
    low = [max(0, -start) for start in starts]
    high = [max(0, end + 1 - n) for end, n in zip(last, shape(x), strict=True)]
    if any((*low, *high)):
        x = b.pad(x, zero(b, x), low, high, [0] * len(low))
    places: list[ir.AffineExpr] = [
        ir.AffineExpr.get_constant(start + lo) for start, lo in zip(starts, low, strict=True)
    ]
    for i, (_, d, step) in enumerate(dimensions):
        places[d] += ir.AffineExpr.get_dim(i) * step
    at = ir.AffineMap.get(len(dimensions), 0, places)
    type_ = with_shape(x.type, [each.size for each in dimensions])
    y = in_own_dispatch(b, type_, lambda k: k.generic([x], k.empty(type_), lambda k, v, _: v, at))
    return b.reshape(y, to)


def zero(b: Emitter, x: IrValue) -> IrValue:
    """Emits 0 as a scalar of the element type of x."""
    return b.constant(0, ir.RankedTensorType.get([], element(x)))
