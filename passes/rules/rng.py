"""rng: random numbers, differentiated toward the distribution's parameters by reparametrization.

    uniform from a to b     y = a + (b - a) u    dy = (1 - u) da + u db,  u = (y - a) / (b - a)
    normal of a, s          y = a + s z          dy = da + z ds,          z = (y - a) / s

The standard sample (u or z) is recovered from the result, since a second op would draw another one. For a
distribution of zero width this fails, and the derivative is NaN.

Source: Kingma, Welling, "Auto-Encoding Variational Bayes" (2014), section 2.4.
"""

from typing import Any

from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.graph import Definition
from tiduc.passes.rules.elementwise import difference
from tiduc.passes.rules.opset import linearize
from tiduc.passes.rules.registry import Tangents


@linearize("stablehlo.rng")
def rng(b: Any, op: Definition, dx: Tangents) -> list[Any]:
    first, second, _ = op.operands
    y = op.result

    def spread(v: Any) -> Any:
        return b.broadcast_in_dim(v, [], y)

    is_uniform = hlo.RngDistributionAttr(op.attributes["rng_distribution"]).value == "UNIFORM"
    terms = [] if dx[0] is None else [spread(dx[0])]
    if dx[1] is not None or is_uniform:
        width = difference(b, second, first) if is_uniform else second
        moved = difference(b, dx[1], dx[0]) if is_uniform else dx[1]
        sample = b.divide(b.subtract(y, spread(first)), spread(width))
        terms.append(b.multiply(sample, spread(moved)))
    return [b.sum(terms)]
