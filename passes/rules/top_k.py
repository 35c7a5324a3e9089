"""top_k: gathers the tangents of the selected values. The indices have no tangent."""

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.shapes.types import rank
from tiduc.passes.rules.opset import linearize
from tiduc.passes.rules.registry import Tangents
from tiduc.passes.rules.selection import numbers_along, take_elements


@linearize("chlo.top_k")
@linearize("stablehlo.custom_call @mhlo.topk")
@linearize("stablehlo.custom_call @stablehlo.dynamic_top_k")
def top_k(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value | None]:
    """Gathers the tangents at the indices that the op returns.

    The custom calls compute the same function as the op. `stablehlo.dynamic_top_k` takes k as a second operand.
    """
    x, indices = op.operands[0], op.results[1]
    return [take_elements(b, dx[0], numbers_along(b, x, indices, rank(x) - 1), None), None]
