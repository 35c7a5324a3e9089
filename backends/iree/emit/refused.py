"""`refused`: the error for an op that IREE cannot compile."""

from typing import Any

from tiduc.dialect.errors import Unsupported


def refused(op: Any, reason: str) -> Unsupported:
    """The error for an op that IREE cannot compile."""
    return Unsupported(f"IREE cannot compile {op.name}: {reason}", op.location)
