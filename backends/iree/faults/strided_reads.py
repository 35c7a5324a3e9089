"""Rewrites strided slices for GPUs. IREE loses the strides of a slice in two cases.

In the first case, IREE drops a dimension of size 1 from the slice. The pattern drops the dimension before the slice:

    %y = slice %x [1:256:4, 0:1, 0:64] : tensor<256x1x64xf32>
    ->  %z = slice (reshape %x) [1:256:4, 0:64] : tensor<256x64xf32>;  %y = reshape %z

In the second case, IREE sums the rows of the slice on SPIR-V. A barrier after the slice makes IREE write it to memory.
"""

from collections.abc import Sequence

from tiduc.backends.iree.emit.arrays import has_dynamic_shape
from tiduc.backends.iree.emit.emitter import ON_OTHERS, Emitter, legalize
from tiduc.backends.iree.fault import wrong
from tiduc.dialect.graph.matching import defined_by, traced
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import shape

_SLICES = "stablehlo.slice", "stablehlo.dynamic_slice"


@legalize("stablehlo.slice", where=ON_OTHERS)
@wrong(
    "On GPUs, IREE loses the stride where a dimension has size 1; tiduc drops the dimension first.",
    "cuda/strided_slice",
)
@wrong(
    "On SPIR-V, IREE sums wrong rows of a strided slice; a barrier stores the slice.", "vulkan/strided_rows"
)
def slice_(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Drops dimensions of size 1 from the array, slices it, and adds the dimensions again.

    If the slice itself cuts a dimension to size 1, another slice does so first. A barrier keeps IREE from merging this
    slice, or an earlier one, with the strided slice. On SPIR-V, keeps the op and puts a barrier after it instead.

    Returns None if all strides are 1, or if the slice is empty or of dynamic shape. On targets other than SPIR-V, also
    returns None if no dimension of the slice has size 1.
    """
    x, strides = op.operands[0], list(op.attributes["strides"])
    if has_dynamic_shape(op) or max(strides, default=1) == 1 or 0 in (sizes := shape(op.results[0])):
        return None
    if b.settings.spirv:
        return [b.stored(*b.clone(op, {}))]
    if 1 not in sizes:
        return None
    starts, ends = list(op.attributes["start_indices"]), list(op.attributes["limit_indices"])
    single = [d for d, n in enumerate(sizes) if n == 1]
    if any(shape(x)[d] > 1 for d in single):
        bounds = [(starts[d], starts[d] + 1) if d in single else (0, n) for d, n in enumerate(shape(x))]
        x = b.stored(b.slice(x, [i for i, _ in bounds], [i for _, i in bounds], [1] * len(sizes)))
    elif any(defined_by(y, name) for y in traced(x, ("stablehlo.reshape",)) for name in _SLICES):
        x = b.stored(x)
    left = [d for d in range(len(sizes)) if d not in single]
    x = b.reshape(x, [shape(x)[d] for d in left])
    return [b.reshape(b.slice(x, *([each[d] for d in left] for each in (starts, ends, strides))), sizes)]
