"""map: applies the ops of a region to each element. It is linearized as the same ops on whole tensors."""

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.passes.rules.expansion import expanded
from tiduc.passes.rules.opset import linearize
from tiduc.passes.rules.registry import Tangents
from tiduc.passes.rules.tensor_body import of_tensors


@linearize("stablehlo.map")
def map_(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value | None]:
    return expanded(b, op.operands, dx, lambda *operands: of_tensors(b, op, operands))
