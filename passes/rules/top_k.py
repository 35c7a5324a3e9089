"""top_k: the tangents of the values that it takes; its indices have none."""

from typing import Any

from tiduc.dialect.graph import Definition
from tiduc.dialect.types import element, rank, shape, with_element
from tiduc.passes.rules.opset import linearize
from tiduc.passes.rules.registry import Tangents
from tiduc.passes.rules.selection import numbers, taken


@linearize("chlo.top_k")
def top_k(b: Any, op: Definition, dx: Tangents) -> list[Any | None]:
    """A gather by the numbers of the elements: that of their row's first, and their index in it."""
    x, indices = op.operands[0], op.results[1]
    if 0 in (*shape(x), *shape(indices)):
        return [None, None]
    number, rows = numbers(b, x), shape(x)[:-1]
    first = b.slice(number, [0] * rank(x), [*rows, 1], [1] * rank(x))
    type_ = with_element(indices.type, element(number))
    firsts = b.broadcast_in_dim(b.reshape(first, rows), range(len(rows)), type_)
    return [taken(b, dx[0], b.add(firsts, b.convert(indices, element(number))), None), None]
