"""Patterns for `sort`. They emit sorts that are stable and take fewer than O(n^2) steps, unlike IREE's sort."""

import math
from collections.abc import Sequence

from tiduc.backends.iree.emit.emitter import Emitter, legalize
from tiduc.backends.iree.emit.rows import sorted_dimension
from tiduc.backends.iree.fault import crash, wrong
from tiduc.backends.iree.missing.bitonic_sort import network_sort
from tiduc.backends.iree.missing.merge_sort import merge_sort
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import is_dynamic, shape


@legalize("stablehlo.sort")
@wrong(
    "The sort is unstable, and takes O(n^2) steps; on CPUs, tiduc emits a merge sort.",
    "sort_stable",
    upstream="https://github.com/iree-org/iree/issues/13865",
)
@wrong("On GPUs, one thread sorts a row, and may end early; tiduc emits a sorting network.", "vulkan/sort")
@crash(
    "On GPUs, rows of dynamic shapes crash the compiler; tiduc emits a sorting network.",
    "vulkan/dynamic/sort_along_rows",
)
def sort(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Emits a merge sort on CPUs, and a sorting network on GPUs. Returns the operands if they need no sort."""
    x, dimension = op.operands[0], sorted_dimension(op)
    if not is_dynamic(x.type) and (shape(x)[dimension] < 2 or not math.prod(shape(x))):
        return list(op.operands)
    return merge_sort(b, op, dimension) if b.cpu else network_sort(b, op, dimension)
