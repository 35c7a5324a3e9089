"""Replaces ops that IREE cannot compile in kernels (single dispatches): conditionals, gathers of one slice, and pads.

    %y = case(%i) { return %a }, { return %b }    ->    %y = select(%i == 0, %a, %b)
    gather of one slice                           ->    dynamic_slice
    pad                                           ->    concatenate
    a mark of x (`emit/marks.py`)                 ->    x

A mark is a copy that IREE merges with no other array. It is removed if the kernel does not need it.

IREE's compiler fails on a conditional in a kernel if its results are arrays. If the branches are cheap, all branches
are computed instead, and selects choose among their results. This is equivalent, because the branches have no side
effects and no loops, and a NaN in a branch that is not chosen has no effect. If the index is out of range, the last
branch is chosen, as the specification says.
"""

import math
from collections.abc import Sequence

from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.backends.iree.emit.emitter import Emitter, is_static
from tiduc.backends.iree.emit.kernels import KERNEL
from tiduc.backends.iree.emit.marks import BARRIER, before_mark, hidden_of
from tiduc.backends.iree.emit.updates import updated
from tiduc.dialect.graph.dependences import reached
from tiduc.dialect.graph.functions import outer_first
from tiduc.dialect.ops.contractions import Contraction
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import shape, with_shape

BRANCHES = ("stablehlo.case", "stablehlo.if")
GATHER = "stablehlo.gather"

_WORK = 2**14
"""The most work (`work_of`) of all branches of a conditional that is replaced: a few microseconds in a kernel."""


def is_cheap(op: IrOp) -> bool:
    """Whether a conditional has only static shapes and no loop, and the work of its branches is at most `_WORK`."""
    inner = outer_first(op)[1:]
    if any(x.name in ("stablehlo.while", KERNEL) for x in inner):
        return False
    types = [y.type for x in inner for y in x.results]
    return all(map(is_static, types)) and sum(map(work_of, inner)) <= _WORK


def work_of(op: IrOp) -> int:
    """The cost of an op: the multiplications of a `dot_general`, or the number of elements of another op's results."""
    count = sum(int(math.prod(shape(y))) for y in op.results)
    return count * contracted_size(op) if op.name == "stablehlo.dot_general" else count


def as_selects(b: Emitter, op: IrOp) -> Sequence[IrValue]:
    """Replaces a conditional: inlines all branches, and emits selects among their results."""
    (index,) = op.operands
    *others, results = (b.inlined(region, ()) for region in op.regions)
    for i, branch in reversed(list(enumerate(others))):
        chosen = index
        if op.name == "stablehlo.case":
            chosen = b.compare(index, b.constant(i, index.type), "EQ")
        results = [b.select(chosen, y, other) for y, other in zip(branch, results, strict=True)]
    return results


def is_one_slice(op: IrOp) -> bool:
    """Whether an op is a gather of one slice. An earlier pattern has clamped its index (`faults/indexing.py`).

    Only kernels replace such a gather: outside of kernels, the host would wait for the index of the dynamic_slice.
    """
    if op.name != GATHER:
        return False
    count = len(hlo.GatherDimensionNumbers(op.attributes["dimension_numbers"]).start_index_map)
    return count > 0 and math.prod(shape(op.operands[1])) == count


def as_slice(b: Emitter, gather: IrOp) -> Sequence[IrValue]:
    """Rewrites a gather of one slice as a dynamic_slice."""
    x, index = gather.operands
    to = list(hlo.GatherDimensionNumbers(gather.attributes["dimension_numbers"]).start_index_map)
    index = b.reshape(index, [len(to)])
    start = [b.constant(0, with_shape(index.type, []))] * len(shape(x))
    for k, i in enumerate(to):
        start[i] = b.reshape(b.slice(index, [k], [k + 1], [1]), [])
    y = b.dynamic_slice(x, start, list(gather.attributes["slice_sizes"]))
    return [b.reshape(y, shape(gather.results[0]))]


def as_concatenation(b: Emitter, pad: IrOp) -> Sequence[IrValue]:
    """Rewrites a pad as one concatenation for each padded dimension.

    IREE would compile a pad in a kernel to code on one vector as large as the array.
    """
    x, value = pad.operands
    low, high = (list(pad.attributes[f"edge_padding_{end}"]) for end in ("low", "high"))
    for d, counts in enumerate(zip(low, high, strict=True)):
        shapes = [[n if i == d else size for i, size in enumerate(shape(x))] for n in counts]
        before, after = ([b.broadcast_in_dim(value, [], sizes)] if sizes[d] else [] for sizes in shapes)
        if before or after:
            x = b.concatenate([*before, x, *after], d)
    return [x]


def without_mark(b: Emitter, select: IrOp) -> Sequence[IrValue] | None:
    """Replaces the select of a mark by the value that the mark copies. None for other selects."""
    return [before_mark(select.results[0])] if is_needless_mark(select) else None


def is_needless_mark(select: IrOp) -> bool:
    """Whether a select is a mark that a kernel does not need: no reader is a loop or updates the mark's array in place.

    A mark keeps IREE from merging arrays of different dispatches, but a kernel is one dispatch. Barriers are removed
    from kernels, so the readers of a barrier's result count as readers of the mark.
    """
    (y,) = select.results
    if hidden_of(y) is None:
        return False
    values: list[IrValue] = [y]
    for x in reached(values, _behind_barriers):
        for use in x.uses:
            if use.operand_number in updated(use.owner) or use.owner.name == "stablehlo.while":
                return False
    return True


def _behind_barriers(x: IrValue) -> list[IrValue]:
    """For each barrier that reads x, the result that is equal to x."""
    return [use.owner.results[use.operand_number] for use in x.uses if use.owner.name == BARRIER]


def contracted_size(op: IrOp) -> int:
    """The number of products that a dot or dot_general adds up for each element of its result."""
    return math.prod(op.operands[0].type.shape[d] for d in Contraction.of(op).summed[0])
