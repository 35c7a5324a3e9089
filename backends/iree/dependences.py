"""Searches among the ops that compute a value."""

from collections.abc import Callable
from typing import Any

from torch_mlir import ir

FAR = 64
"""The most values that are searched: more than IREE fuses."""


def computed_from(x: Any, wanted: Callable[[Any], bool], through: Callable[[Any], bool]) -> bool:
    """Whether a value is computed from an op for which `wanted` holds, by way of ops for which `through` holds."""
    waiting, seen = [x], set[Any]()
    while waiting and len(seen) < FAR:
        y = waiting.pop()
        if not isinstance(y, ir.OpResult) or y in seen:
            continue
        if wanted(y.owner):
            return True
        seen.add(y)
        if through(y.owner):
            waiting += y.owner.operands
    return False
