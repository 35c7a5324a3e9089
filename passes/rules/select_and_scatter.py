"""select_and_scatter: linear in what is scattered; where it goes has no derivative but zero.

Two things are refused. To scatter by any op but add: the derivative depends on which sources meet at a place.
And an active initial value: how often it takes part is where implementations differ.
"""

from collections.abc import Sequence
from typing import Any

from tiduc.dialect.bodies import Body, reducer, returned, self_contained
from tiduc.dialect.graph import Definition
from tiduc.dialect.types import shape, with_shape
from tiduc.dialect.windows import window_of
from tiduc.passes.rules.opset import linearize, transpose, unsupported
from tiduc.passes.rules.registry import Tangents
from tiduc.passes.rules.selection import selected, taken

SCATTERS = "it scatters by another op than add"


@linearize("stablehlo.select_and_scatter")
def select_and_scatter(b: Any, op: Definition, dx: Tangents) -> list[Any]:
    if reducer(op, region=1) != "stablehlo.add":
        raise unsupported("jvp", op, SCATTERS)
    if dx[2] is not None:
        raise unsupported("jvp", op, "its initial value is active")
    return [None] if dx[1] is None else list(b.reapply(op, {1: dx[1], 2: b.zeros_like(op.operands[2])}))


@transpose("stablehlo.select_and_scatter")
def select_and_scatter_transpose(b: Any, op: Definition, ct: Tangents, active: Sequence[bool]) -> list[Any]:
    """Each source takes back the cotangent of the place its window selects."""
    x, source, _ = op.operands
    if reducer(op, region=1) != "stablehlo.add":
        raise unsupported("transpose", op, SCATTERS)
    if active[0] or active[2]:
        raise unsupported("transpose", op, "it is linear in the source only")
    if not self_contained(b, op):
        raise unsupported("transpose", op, "its selection reads a value from outside")

    def prefers(body: Body, u: Any, v: Any) -> Any:
        return body.copy_of(b, op, 0, [u, v])[returned(op)[0]]

    if 0 in (*shape(x), *shape(source)):
        return [None, b.zeros_like(source), None]
    window, zero = window_of(op), b.zero(with_shape(x.type, []))
    at = selected(b, x, zero, window, prefers)[1]
    otherwise = zero if window.may_be_empty(shape(x)) else None
    return [None, taken(b, ct[0], at, otherwise), None]
