"""cholesky: computes L with L L^H = a, which is lower triangular, or U with U^H U = a, which is upper triangular.

The op reads one triangle of a, and only the real part of the diagonal. Therefore only these entries have a derivative.
JAX first replaces the operand by (a + a^H) / 2, so in JAX each triangle has half of the derivative.

Source: Murray, "Differentiation of the Cholesky decomposition" (2016).
"""

from tiduc.dialect.emitters.matrices import adjoint, compare_places, matrix_product, solve, triangle
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.passes.rules.opset import linearize
from tiduc.passes.rules.registry import Tangents
from tiduc.passes.rules.triangular_solve import flag


@linearize("stablehlo.cholesky")
def cholesky(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value]:
    return [factor_tangent(b, op.result, dx[0], flag(op, "lower"))]


def factor_tangent(b: StablehloBuilder, y: Value, dx: Value, lower: bool) -> Value:
    """dL = L h(L^-1 da L^-H) with da = h(dx) + h(dx)^H, where h takes the lower triangle and halves its diagonal.

    For an upper factor, dU = h(U^-H da U^-1) U, where h takes the upper triangle.
    """
    part = _halved(b, dx, lower)
    da = b.add(part, adjoint(b, part))
    left = solve(b, y, da, left=True, lower=lower, adjoint=not lower)
    both = _halved(b, solve(b, y, left, left=False, lower=lower, adjoint=lower), lower)
    factor = triangle(b, y, lower)  # the other triangle of y is implementation-defined
    return matrix_product(b, factor, both) if lower else matrix_product(b, both, factor)


def _halved(b: StablehloBuilder, x: Value, lower: bool) -> Value:
    """The lower (or upper) triangle of x, with its diagonal halved."""
    half, one = b.constant(0.5, x), b.constant(1, x)
    weights = b.select(compare_places(b, x, "EQ"), half, one)
    return triangle(b, b.multiply(weights, x), lower)
