"""Broadcasts of an iota become an iota of the full shape, on CPUs.

    %0 = stablehlo.iota dim = 0 : tensor<5xi32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<5xi32>) -> tensor<9x5xi32>
    ->  %1 = stablehlo.iota dim = 1 : tensor<9x5xi32>

StableHLO's simplification splits iotas in this way. IREE then reads the short iota from memory, once for each element:
an argmax takes 1.8 times as long.
"""

from collections.abc import Sequence
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import ON_CPUS, Emitter, legalize
from tiduc.backends.iree.fault import slow
from tiduc.dialect.types import is_dynamic


@legalize("stablehlo.broadcast_in_dim", where=ON_CPUS)
@slow(
    "IREE stores a broadcast iota and reads it from memory for each element: an iota of the full shape instead."
)
def broadcast_iota(b: Emitter, op: Any) -> Sequence[Any] | None:
    """An iota of the full shape."""
    x, type_ = op.operands[0], op.results[0].type
    along = None if is_dynamic(type_) else _counted(x)
    if along is None:
        return None
    dimension = list(op.attributes["broadcast_dimensions"])[along]
    if x.type.shape[along] != type_.shape[dimension]:
        return None  # an iota of one element, broadcast to zeros
    return [b.iota(dimension, type_)]


def _counted(x: Any) -> int | None:
    """The dimension of an iota, or of a reshape of one to a single nonunit dimension; None for other values."""
    if not isinstance(x, ir.OpResult):
        return None
    if x.owner.name == "stablehlo.iota":
        return int(ir.IntegerAttr(x.owner.attributes["iota_dimension"]).value)
    if x.owner.name == "stablehlo.reshape":
        of, lines = _counted(x.owner.operands[0]), [i for i, n in enumerate(x.type.shape) if n != 1]
        if (
            of is not None
            and len(lines) == 1
            and x.type.shape[lines[0]] == x.owner.operands[0].type.shape[of]
        ):
            return lines[0]
    return None
