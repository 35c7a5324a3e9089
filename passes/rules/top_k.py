"""top_k: the tangents of the values that it takes; its indices have none."""

from typing import Any

from tiduc.dialect.graph import Definition
from tiduc.dialect.types import is_empty, rank
from tiduc.passes.rules.opset import linearize
from tiduc.passes.rules.registry import Tangents
from tiduc.passes.rules.selection import numbers_along, taken


@linearize("chlo.top_k")
@linearize("stablehlo.custom_call @mhlo.topk")
def top_k(b: Any, op: Definition, dx: Tangents) -> list[Any | None]:
    """A gather by the indices that it gives; the call is the same by another name."""
    x, indices = op.operands[0], op.results[1]
    if is_empty(x) or is_empty(indices):
        return [None, None]
    return [taken(b, dx[0], numbers_along(b, x, indices, rank(x) - 1), None), None]
