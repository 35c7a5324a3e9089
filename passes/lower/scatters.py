"""scatters: adds only those updates that are not padding.

    scatter-add 0, i, (pad u)       ->      scatter-add 0, (slice i), u

The gradient of the first elements of a sort has this form: the cotangent of a slice is padded, and added at the indices
of the sorted elements. Without the padding, the indices of the other elements are not needed.
"""

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.facts.identities import is_zeros
from tiduc.dialect.graph.graph import operations
from tiduc.dialect.graph.matching import defined_by
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import is_dynamic, shape, with_shape

_NUMBERS = "scatter_dimension_numbers"


def adds_to_zeros(scatter: IrOp) -> bool:
    """Whether a scatter of one array adds its updates to zeros."""
    if len(scatter.results) != 1 or not is_zeros(scatter.operands[0]):
        return False
    (block,) = scatter.regions[0].blocks
    add, *rest = operations(block)
    return add.name == "stablehlo.add" and len(rest) == 1 and set(add.operands) == set(block.arguments)


def without_padding(scatter: IrOp, pad: IrOp) -> IrValue | None:
    """Replaces a scatter of padded updates by a scatter of the updates.

    Returns None unless zeros are added to zeros, outside of a slice of the indices.
    """
    indices, u = scatter.operands[1], pad.operands[0]
    if is_dynamic(indices.type) or is_dynamic(u.type) or not adds_to_zeros(scatter):
        return None
    low, high, between = (
        list(pad.attributes[f"{name}_padding{end}"])
        for name, end in (("edge", "_low"), ("edge", "_high"), ("interior", ""))
    )
    d = hlo.ScatterDimensionNumbers(scatter.attributes[_NUMBERS])
    padded = [i for i, ends in enumerate(zip(low, high, strict=True)) if any(ends)]
    if any(between) or min(*low, *high) < 0 or not is_zeros(pad.operands[1]):
        return None
    # The dimensions of the updates that number slices are, in order, the dimensions of the indices.
    of_slices = [i for i in range(len(low)) if i not in d.update_window_dims]
    of_indices = [i for i in range(len(shape(indices))) if i != d.index_vector_dim]
    places = dict(zip(of_slices, of_indices, strict=True))
    if any(i not in places or places[i] in d.scatter_indices_batching_dims for i in padded):
        return None
    at, sizes = {places[i]: low[i] for i in padded}, {places[i]: shape(u)[i] for i in padded}
    copy = scatter.clone(ir.InsertionPoint(scatter)).operation
    copy.operands[1], copy.operands[2] = _sliced(indices, at, sizes, copy), u
    return copy.result


def _sliced(x: IrValue, starts: dict[int, int], sizes: dict[int, int], before: IrOp) -> IrValue:
    """Emits a slice of x with these starts and sizes along some dimensions.

    The slice of a reshape that adds a last dimension of size 1 is the reshape of a slice, so that readers of a sort are
    slices.
    """
    ip, given = ir.InsertionPoint(before), defined_by(x, "stablehlo.reshape")
    if given is not None and shape(x) == [*shape(given.operands[0]), 1]:
        y = _sliced(given.operands[0], starts, sizes, before)
        type_ = with_shape(x.type, [*shape(y), 1])
        return ir.Operation.create("stablehlo.reshape", [type_], [y], loc=before.location, ip=ip).result
    first = [starts.get(i, 0) for i in range(len(shape(x)))]
    kept = [sizes.get(i, n) for i, n in enumerate(shape(x))]
    ends = [a + n for a, n in zip(first, kept, strict=True)]
    attributes = {
        name: ir.DenseI64ArrayAttr.get(numbers)
        for name, numbers in (
            ("start_indices", first),
            ("limit_indices", ends),
            ("strides", [1] * len(first)),
        )
    }
    type_ = with_shape(x.type, kept)
    return ir.Operation.create("stablehlo.slice", [type_], [x], attributes, loc=before.location, ip=ip).result
