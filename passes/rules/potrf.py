"""LAPACK and cuSOLVER calls for Cholesky factors. The factor replaces one triangle of the operand, not the other."""

from tiduc.dialect.emitters.matrices import compare_places
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.facts.lapack import targets
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.shapes.types import predicate, rank
from tiduc.passes.rules.cholesky import factor_tangent
from tiduc.passes.rules.custom_call import custom_call
from tiduc.passes.rules.decomposition import settings
from tiduc.passes.rules.registry import Tangents


@custom_call(*targets("potrf"))
def potrf(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value | None]:
    """Takes the tangent of `cholesky` in the triangle of the factor, and that of the operand in the other triangle."""
    given, (y, info) = settings(op), op.results
    lower = given["lower"] if "lower" in given else given["uplo"] == ord("L")
    dy = factor_tangent(b, succeeded(b, y, info), dx[0], lower)
    return [b.select(compare_places(b, y, "GE" if lower else "LE"), dy, dx[0]), None]


def succeeded(b: StablehloBuilder, y: Value, info: Value) -> Value:
    """Returns y if `info` is zero (the call succeeded), else NaN.

    JAX replaces the results of a failed call by NaN, but by a select, so that cotangents of the call would be zero. If
    a rule uses the result of this function instead, tangents and cotangents become NaN, too.
    """
    none = b.broadcast_in_dim(b.compare(info, b.zeros_like(info), "EQ"), range(rank(info)), predicate(y.type))
    return b.select(none, y, b.constant(float("nan"), y))
