"""dot_general with dynamic dimensions and no batch, as a product of matrices."""

import math
from collections.abc import Sequence
from typing import Any

from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.backends.iree.emitter import DYNAMIC, Emitter, legalize
from tiduc.backends.iree.fault import missing
from tiduc.backends.iree.missing.dynamic.arrays import in_shape, sizes_of, transposed, type_of


@legalize("stablehlo.dot_general", where=DYNAMIC)
@missing("With no batch, compiles for matrices alone; reshapes the operands to matrices.", "dynamic/dot")
def dot_general(b: Emitter, op: Any) -> Sequence[Any] | None:
    """A product of matrices."""
    x, y = op.operands
    d = hlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    if d.lhs_batching_dimensions or len(x.type.shape) <= 2 and len(y.type.shape) <= 2:
        return None
    left, outer = _matrix(b, x, d.lhs_contracting_dimensions, last=True)
    right, inner = _matrix(b, y, d.rhs_contracting_dimensions, last=False)
    type_ = op.results[0].type
    sizes = [math.prod(outer), math.prod(inner)]
    attributes = {name: op.attributes[name] for name in op.attributes}
    attributes["dot_dimension_numbers"] = hlo.DotDimensionNumbers.get([], [], [1], [0])
    z = b.emit(op.name, (left, right), type_of(sizes, type_.element_type), attributes)
    return [in_shape(b, z, [*outer, *inner])]


def _matrix(b: Emitter, x: Any, contracted: Sequence[int], last: bool) -> tuple[Any, list[Any]]:
    """x as a matrix, whose columns (`last`) or rows are contracted, and the sizes of the other dimensions."""
    free = [i for i in range(len(x.type.shape)) if i not in contracted]
    order = [*free, *contracted] if last else [*contracted, *free]
    sizes = sizes_of(b, x)
    outer, inner = [sizes[i] for i in free], [sizes[i] for i in contracted]
    pair = [math.prod(outer), math.prod(inner)]
    x = transposed(b, x, order)
    return in_shape(b, x, pair if last else pair[::-1]), outer
