"""flat_products: products of arrays as products of matrices, where a reshape makes these of them.

    %0 = dot_general %x, %y, contracting_dims = [2] x [0] : (4x32x256, 256x100)
    ->
    %1 = dot_general (reshape %x), %y, contracting_dims = [1] x [0] : (128x256, 256x100);  %0 = reshape %1

`products_in_tiles` takes products of matrices only.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.backends.iree.emitter import Emitter, is_in_loop, is_static, rewrite
from tiduc.backends.iree.fast.kernels import KERNEL
from tiduc.backends.iree.fault import slow
from tiduc.dialect.context import stage
from tiduc.dialect.types import shape, with_shape


@slow("Takes its own tiles for products of arrays of more dimensions; reshapes them for `products_in_tiles`.")
@stage
def flat_products(module: Any) -> int:
    """Rewrites products outside of loops in place; gives their number."""
    return rewrite(module, {"stablehlo.dot_general": _flat})


def _flat(b: Emitter, op: Any) -> list[Any] | None:
    """The product of the operands whose kept dimensions are one, and whose contracted dimensions are one."""
    y = op.results[0]
    if not all(is_static(v.type) for v in (*op.operands, y)) or op.operation.parent.name == KERNEL:
        return None
    numbers = hlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    batches = [list(numbers.lhs_batching_dimensions), list(numbers.rhs_batching_dimensions)]
    pairs = sorted(zip(numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions, strict=True))
    summed = [[pair[side] for pair in pairs] for side in (0, 1)]
    kept = [
        [d for d in range(len(shape(x))) if d not in (*own, *over)]
        for x, own, over in zip(op.operands, batches, summed, strict=True)
    ]
    runs = (*kept, *summed)
    if all(len(run) < 2 for run in runs) or not all(map(_adjoin, runs)) or is_in_loop(op):
        return None
    operands, moved = [], []
    for x, own, *merged in zip(op.operands, batches, kept, summed, strict=True):
        groups = sorted([*([d] for d in own), *(run for run in merged if run)])
        operands.append(b.reshape(x, [math.prod(shape(x)[d] for d in group) for group in groups]))
        moved.append([[groups.index([d]) for d in own], [groups.index(merged[1])] if merged[1] else []])
    sizes = shape(y)[: len(batches[0])]
    sizes += [math.prod(shape(x)[d] for d in run) for x, run in zip(op.operands, kept, strict=True) if run]
    given = {name: op.attributes[name] for name in op.attributes}
    (left, over_left), (right, over_right) = moved
    given["dot_dimension_numbers"] = hlo.DotDimensionNumbers.get(left, right, over_left, over_right)
    z = b.emit("stablehlo.dot_general", operands, with_shape(y.type, sizes), given)
    return [b.reshape(z, shape(y))]


def _adjoin(dimensions: Sequence[int]) -> bool:
    """Whether dimensions follow one another, so that a reshape merges them."""
    return all(after == before + 1 for before, after in pairwise(dimensions))
