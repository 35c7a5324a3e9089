"""Replaces a broadcast of an iota by an iota of the full shape, on CPUs.

    %0 = stablehlo.iota dim = 0 : tensor<5xi32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<5xi32>) -> tensor<9x5xi32>
    ->  %1 = stablehlo.iota dim = 1 : tensor<9x5xi32>

StableHLO's simplification turns the second form into the first. IREE then stores the short iota, and reads it from
memory for each element of the broadcast, so that an argmax takes 1.8 times as long.
"""

from collections.abc import Sequence

from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import ON_CPUS, Emitter, legalize
from tiduc.backends.iree.fault import slow
from tiduc.dialect.graph.matching import defined_by
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import is_dynamic


@legalize("stablehlo.broadcast_in_dim", where=ON_CPUS)
@slow(
    "IREE stores a broadcast iota and reads it for each element; tiduc emits an iota of the full shape.",
    "flags.py: argmax",
)
def broadcast_iota(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Replaces a broadcast of an iota by an iota of the full shape. Returns None for other broadcasts."""
    x, type_ = op.operands[0], op.results[0].type
    along = None if is_dynamic(type_) else _iota_dimension(x)
    if along is None:
        return None
    dimension = list(op.attributes["broadcast_dimensions"])[along]
    if x.type.shape[along] != type_.shape[dimension]:
        return None  # the iota has one element, 0, so all elements of its broadcast are 0
    return [b.iota(dimension, type_)]


def _iota_dimension(x: IrValue) -> int | None:
    """The dimension along which x is an iota. Returns None if x is not an iota.

    x may be a reshape of an iota that only adds or removes dimensions of size 1.
    """
    if iota := defined_by(x, "stablehlo.iota"):
        return int(ir.IntegerAttr(iota.attributes["iota_dimension"]).value)
    if reshape := defined_by(x, "stablehlo.reshape"):
        (before,), long = reshape.operands, [i for i, n in enumerate(x.type.shape) if n != 1]
        of = _iota_dimension(before)
        if of is not None and [x.type.shape[i] for i in long] == [before.type.shape[of]]:
            return long[0]
    return None
