"""`refused`: the error for an op that IREE cannot compile."""

from tiduc.dialect.errors import Unsupported
from tiduc.dialect.ops.ir_types import IrOp


def refused(op: IrOp, reason: str) -> Unsupported:
    """Returns the error for an op that IREE cannot compile, with the op's name and location."""
    return Unsupported(f"IREE cannot compile {op.name}: {reason}", op.location)
