"""LU factorization P a = L U by LAPACK, cuSOLVER and TPU (XLA) calls. One array has L, without its diagonal, and U.

Source: de Hoog, Anderssen, Lukas, "Differentiation of matrix functionals using triangular factorization" (2011).
"""

from tiduc.dialect.emitters.matrices import (
    corner,
    matrix_product,
    packed,
    solve,
    triangle,
    unit_lower,
    without_last,
)
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.facts.lapack import targets
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.shapes.types import shape
from tiduc.passes.rules.custom_call import custom_call
from tiduc.passes.rules.determinant import in_order
from tiduc.passes.rules.registry import Tangents


@custom_call(*targets("getrf"), "LuDecomposition")
def getrf(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value | None]:
    return [packed_tangent(b, op.results[0], in_order(b, op, dx[0])), None, None]


def packed_tangent(b: StablehloBuilder, lu: Value, dx: Value) -> Value:
    """Returns dL below the diagonal and dU on and above it. They solve dx = dL U + L dU.

    With c = L1^-1 dx1 U1^-1, where 1 denotes the leading square block: dL1 = L1 tril(c, -1), and dU = L^-1 dx - tril(c,
    -1) U. For tall matrices, dL = dx U^-1 - L triu(c). For other matrices, the last pivot divides only the last column
    of c, which tril(c, -1) does not contain. Their factors therefore have derivatives even where this pivot is 0.
    """
    m, n = shape(lu)[-2:]
    k = min(m, n)
    square = corner(b, lu, k, k)
    if m > n:
        y = solve(b, square, dx, left=False, lower=False, adjoint=False)
        c = solve(b, square, corner(b, y, k, k), left=True, lower=True, adjoint=False, unit=True)
        upper = triangle(b, c, lower=False)
        du = matrix_product(b, upper, triangle(b, square, lower=False))
        dl = b.subtract(y, matrix_product(b, unit_lower(b, lu), upper))
    else:
        y = solve(b, square, dx, left=True, lower=True, adjoint=False, unit=True)
        pivots = without_last(b, square)
        c = solve(b, pivots, corner(b, y, k, k), left=False, lower=False, adjoint=False)
        below = triangle(b, c, lower=True, strict=True)
        dl = matrix_product(b, unit_lower(b, square), below)
        du = b.subtract(y, matrix_product(b, below, triangle(b, lu, lower=False)))
    return packed(b, dl, du, m, n)
