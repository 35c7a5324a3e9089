"""select_and_scatter: linear in what is scattered; where it goes has no derivative but zero.

What scatters by any op but add is refused: its derivative depends on which sources meet at one place.
"""

from collections.abc import Sequence
from typing import Any

from tiduc.dialect.bodies import Body, reducer, returned, self_contained
from tiduc.dialect.graph import Definition
from tiduc.dialect.stablehlo import rank, shape, with_shape
from tiduc.dialect.windows import window_of
from tiduc.passes.rules.opset import linearize, transpose, unsupported
from tiduc.passes.rules.registry import Tangents
from tiduc.passes.rules.selection import selected, taken

SCATTERS = "it scatters by another op than add"


@linearize("stablehlo.select_and_scatter")
def select_and_scatter(b: Any, op: Definition, dx: Tangents) -> list[Any]:
    if reducer(op, region=1) != "stablehlo.add":
        raise unsupported("jvp", op, SCATTERS)
    if dx[1] is None and dx[2] is None:
        return [None]
    return list(b.reapply(op, {i: b.zero(op.operands[i].type) if dx[i] is None else dx[i] for i in (1, 2)}))


@transpose("stablehlo.select_and_scatter")
def select_and_scatter_transpose(b: Any, op: Definition, ct: Tangents, active: Sequence[bool]) -> list[Any]:
    """Each source takes back the cotangent of the place its window selects."""
    x, source, init = op.operands
    if reducer(op, region=1) != "stablehlo.add":
        raise unsupported("transpose", op, SCATTERS)
    if active[0] or not self_contained(b, op):
        raise unsupported("transpose", op, "its selection is not a primal value, or reads one from outside")

    def prefers(body: Body, u: Any, v: Any) -> Any:
        return body.copy_of(b, op, 0, [u, v])[returned(op)[0]]

    def to_source() -> Any:
        if 0 in (*shape(x), *shape(source)):
            return b.zero(source.type)
        window, zero = window_of(op), b.zero(with_shape(x.type, []))
        at = selected(b, x, zero, window, prefers)[1]
        return taken(b, ct[0], at, zero if window.may_be_empty(shape(x)) else None)

    return [None, to_source, lambda: b.reduce_sum(ct[0], range(rank(x)))]
