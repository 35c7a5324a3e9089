"""separate_reads: if an op reads a reduction along two different dimensions, puts a barrier before the second read.

    %s = reduce(%x) across [1]                          %s = reduce(%x) across [1]
    %r = broadcast_in_dim %s, dims = [0]                %r = broadcast_in_dim %s, dims = [0]
    %c = broadcast_in_dim %s, dims = [1]         ->     %b = optimization_barrier %s
    %y = add %r, %c                                     %c = broadcast_in_dim %b, dims = [1]
                                                        %y = add %r, %c

IREE fuses the reduction with the addition, if both loop over equally many rows and columns. When the fused code
computes row i of %y, it knows only the sum of row i of %x. It therefore adds this sum in each column j, where %c has
the sum of row j: the values are silently wrong. Elementwise ops between the reduction and the broadcast do not prevent
the fusion. A barrier makes IREE write the reduction to memory first. The fault was seen on CPUs and on Vulkan.

The pass follows each reduction forward through elementwise ops and ops that move dimensions. For each value, it records
which of the value's dimensions each dimension of the reduction has become. Two operands of an op conflict if a
dimension of the reduction has become different dimensions in them.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from torch_mlir import ir

from tiduc.backends.iree.fault import wrong
from tiduc.backends.iree.faults.separate_fusions import store_operand
from tiduc.dialect.graph.functions import outer_first
from tiduc.dialect.graph.graph import operations
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.ops.traits import PRODUCTS

_REDUCTIONS = PRODUCTS | {"stablehlo.reduce", "stablehlo.reduce_window"}
_MOVES = frozenset(
    f"stablehlo.{name}"
    for name in "broadcast_in_dim dynamic_broadcast_in_dim dynamic_reshape reshape transpose".split()
)
_NOWHERE = -1  # in `_Read.places`, stands for a dimension of size 1, along which reads cannot conflict
_MOST = 32
"""For each value, only the last 32 reductions that it reads are tracked.

These suffice, because IREE fuses fewer reductions into one dispatch.
"""


@dataclass(frozen=True)
class _Read:
    """How a value depends on a reduction: along which dimensions, and which op moved the dimensions last."""

    places: Hashable
    """For each dimension of the reduction, the index of the value's dimension that it has become.

    If a reshape has split or merged dimensions, `places` is a hashable description of the ops that moved them instead.
    """
    move: int
    """The index, in the block, of the last op that moved dimensions. -1 if no op moved them."""


_Reads = Mapping[int, _Read]
"""How a value depends on reductions. The keys are the indices of the reductions in the block."""


@wrong(
    "If one op reads a sum both along rows and along columns, IREE confuses the two; a barrier stores the sum.",
    "sums_along_rows_and_columns",
)
def separate_reads(module: ir.Module | IrOp) -> None:
    """Inserts a barrier, in place, before each read of a reduction that conflicts with another read of it."""
    regions = [region for op in outer_first(module.operation) for region in op.regions]
    for block in [block for region in regions for block in region.blocks]:
        ops = list(operations(block))
        for number in sorted(_conflicts(ops)):
            store_operand(ops[number], 0)


def _conflicts(ops: list[IrOp]) -> set[int]:
    """Returns the indices of the ops whose first operand needs a barrier. `ops` are all ops of a block, in order."""
    conflicts: set[int] = set()
    reads: dict[IrValue, _Reads] = {}
    for number, op in enumerate(ops):
        if op.name in _REDUCTIONS:
            for y in op.results:
                places = tuple(d if size != 1 else _NOWHERE for d, size in enumerate(y.type.shape))
                reads[y] = {number: _Read(places, -1)}
        elif op.name in _MOVES:
            before = reads.get(op.operands[0], {})
            if before:
                goes = _destinations(op)
                reads[op.results[0]] = {
                    key: _Read(_moved(op, goes, read.places), number) for key, read in before.items()
                }
        elif not len(op.regions) and len(op.results) == 1:
            sources = [reads[x] for x in op.operands if x in reads and _is_elementwise(op, x)]
            if sources:
                reads[op.results[0]] = _joined(sources, conflicts)
    return conflicts


def _is_elementwise(op: IrOp, x: IrValue) -> bool:
    """Whether an op may be elementwise in x. Only the shapes of x and the result are compared."""
    types = x.type, op.results[0].type
    return all(isinstance(type_, ir.RankedTensorType) for type_ in types) and types[0].shape == types[1].shape


def _joined(sources: list[_Reads], conflicts: set[int]) -> _Reads:
    """Merges the reads of an op's operands to those of its result. Keeps only the last `_MOST` reductions.

    For each conflict, adds to `conflicts` the index of the later of the two ops that moved dimensions.
    """
    if len(sources) == 1:
        return sources[0]
    joined = dict(sources[0])
    for reads in sources[1:]:
        for key, read in reads.items():
            other = joined.setdefault(key, read)
            if other.places != read.places:
                conflicts.add(max(other.move, read.move))
    return dict(sorted(joined.items())[-_MOST:]) if len(joined) > _MOST else joined


def _moved(op: IrOp, goes: Mapping[int, int] | None, places: Hashable) -> Hashable:
    """The new `places` of a read after `op` has moved dimensions. `goes` is the result of `_destinations(op)`."""
    if goes is None or not isinstance(places, tuple) or not all(isinstance(place, int) for place in places):
        return op.name, str(op.results[0].type), places
    return tuple(goes[place] if place != _NOWHERE else place for place in places)


def _destinations(op: IrOp) -> dict[int, int] | None:
    """Maps the operand's dimensions to those of the result, for an op that moves dimensions.

    For a reshape, the map lacks dimensions of size 1. Returns None for a reshape that does more than drop or add such
    dimensions.
    """
    if op.name == "stablehlo.transpose":
        return {d: i for i, d in enumerate(ir.DenseI64ArrayAttr(op.attributes["permutation"]))}
    if op.name.endswith("broadcast_in_dim"):
        return dict(enumerate(ir.DenseI64ArrayAttr(op.attributes["broadcast_dimensions"])))
    before, after = (
        [(d, n) for d, n in enumerate(x.type.shape) if n != 1] for x in (op.operands[0], op.results[0])
    )
    if [n for _, n in before] != [n for _, n in after]:
        return None
    return {d: i for (d, _), (i, _) in zip(before, after, strict=True)}
