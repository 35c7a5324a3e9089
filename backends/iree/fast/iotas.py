"""Counters along a dimension that were made to repeat: in code for CPUs, counters of that shape from the start.

    %0 = stablehlo.iota dim = 0 : tensor<5xi32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<5xi32>) -> tensor<9x5xi32>
    ->  %1 = stablehlo.iota dim = 1 : tensor<9x5xi32>

StableHLO's simplification takes them apart. IREE reads the short one from memory, once for each element, as an argmax
does, which takes 1.8 times as long.
"""

from collections.abc import Sequence
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter, legalize
from tiduc.dialect.types import is_open


@legalize("stablehlo.broadcast_in_dim", cpu=True)
def broadcast_iota(b: Emitter, op: Any) -> Sequence[Any] | None:
    """A counter is read from memory then, once for each element: one of that shape from the start."""
    x, type_ = op.operands[0], op.results[0].type
    along = None if is_open(type_) else _counted(x)
    if along is None:
        return None
    dimension = list(op.attributes["broadcast_dimensions"])[along]
    if x.type.shape[along] != type_.shape[dimension]:
        return None  # a counter of one element, which is 0
    return [b.iota(dimension, type_)]


def _counted(x: Any) -> int | None:
    """The dimension along which a value counts; None where it is no counter, nor the reshape of one in a line."""
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
