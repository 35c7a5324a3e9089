"""dot_general with dynamic dimensions and no batch, as a product of matrices."""

import math
from collections.abc import Sequence
from typing import Any

from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.backends.iree.emitter import DYNAMIC, Emitter, legalize
from tiduc.backends.iree.fault import crash, missing
from tiduc.backends.iree.missing.dynamic.arrays import in_shape, sizes_of, spread, type_of


@legalize("stablehlo.dot_general", where=DYNAMIC)
@missing("With no batch, compiles for matrices alone; reshapes the operands to matrices.", "dynamic/dot")
@crash(
    "Products with vectors, rows or columns do not compile without a batch; sums products of elements.",
    "dynamic/dot_of_vector",
)
def dot_general(b: Emitter, op: Any) -> Sequence[Any] | None:
    """A product of matrices, or sums of products of elements if a matrix is a row or a column."""
    x, y = op.operands
    d = hlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    are_matrices = all(len(v.type.shape) == 2 and 1 not in v.type.shape for v in (x, y))
    if d.lhs_batching_dimensions or are_matrices and len(d.lhs_contracting_dimensions) == 1:
        return None
    left, outer, common = _matrix(b, x, d.lhs_contracting_dimensions, last=True)
    right, inner, _ = _matrix(b, y, d.rhs_contracting_dimensions, last=False)
    type_ = op.results[0].type
    sizes = [math.prod(outer), common, math.prod(inner)]
    if 1 in sizes:
        left, right = (b.convert(v, type_.element_type) for v in (left, right))
        elements = b.multiply(spread(b, left, [0, 1], sizes), spread(b, right, [1, 2], sizes))
        z = b.reduce_sum(elements, [1])
    else:
        attributes = {name: op.attributes[name] for name in op.attributes}
        attributes["dot_dimension_numbers"] = hlo.DotDimensionNumbers.get([], [], [1], [0])
        z = b.emit(op.name, (left, right), type_of(sizes[::2], type_.element_type), attributes)
    return [in_shape(b, z, [*outer, *inner])]


def _matrix(b: Emitter, x: Any, contracted: Sequence[int], last: bool) -> tuple[Any, list[Any], Any]:
    """x as a matrix, whose columns (`last`) or rows are contracted; the other sizes, and the number contracted."""
    free = [i for i in range(len(x.type.shape)) if i not in contracted]
    order = [*free, *contracted] if last else [*contracted, *free]
    sizes = sizes_of(b, x)
    outer = [sizes[i] for i in free]
    pair = [math.prod(outer), math.prod(sizes[i] for i in contracted)]
    x = b.transpose(x, order)
    return in_shape(b, x, pair if last else pair[::-1]), outer, pair[1]
