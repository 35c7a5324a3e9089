"""Emits the clamps of indices that StableHLO requires."""

from collections.abc import Sequence

from tiduc.backends.iree.emit.emitter import Emitter, signless
from tiduc.dialect.ops.ir_types import IrValue
from tiduc.dialect.shapes.types import element


def clamped(b: Emitter, x: IrValue, limits: Sequence[int], dimension: int | None) -> IrValue:
    """Clamps entry i of each index vector in x to [0, limits[i]]. Returns x as i32, or as i64 if a limit needs it.

    The vectors run along `dimension`. If `dimension` is None, each element of x is a vector of length 1.
    """
    type_ = element(x)
    highest = 2 ** (type_.width - (not type_.is_unsigned)) - 1
    most = [min(n, highest) for n in limits]
    if len(set(most)) == 1:
        upper = b.constant(most[0], x)
    else:  # broadcast the limits, because a constant of the shape of x would take as much memory as x
        assert dimension is not None, limits
        upper = b.broadcast_in_dim(b.table(most, type_), [dimension], x)
    inside = b.clamp(0, x, upper)
    return b.convert(inside, signless(32 if max(limits, default=0) < 2**31 else 64))
