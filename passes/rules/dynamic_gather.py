"""dynamic_gather: a gather whose slice sizes are an operand. If they are constant, it is linearized to a gather."""

from collections.abc import Sequence

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.shapes.origins import entries
from tiduc.dialect.shapes.sizes import any_dynamic
from tiduc.passes.rules.gather import gathered, is_sorted
from tiduc.passes.rules.opset import linearize, transpose
from tiduc.passes.rules.registry import Tangents


@linearize("stablehlo.dynamic_gather")
def dynamic_gather(b: StablehloBuilder, op: Definition, dx: Tangents) -> Sequence[Value]:
    _, indices, sizes = op.operands
    known, numbers = entries(sizes), op.attributes["dimension_numbers"]
    if any_dynamic(known):
        return b.reapply(op, {0: dx[0]})
    return [b.gather(dx[0], indices, numbers, known, op.result.type, is_sorted(op))]


@transpose("stablehlo.dynamic_gather")
def dynamic_gather_transpose(
    b: StablehloBuilder, op: Definition, ct: Tangents, active: Sequence[bool]
) -> list[Value | None]:
    return [*gathered(b, op, ct[0], entries(op.operands[2])), None]
