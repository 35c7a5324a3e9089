"""Calls of LAPACK or cuSOLVER for Cholesky factors. The factor replaces one triangle, and the other is unchanged."""

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
    """In the triangle that is read, the tangent of `cholesky`; in the other triangle, the tangent of the operand."""
    given, (y, info) = settings(op), op.results
    lower = given["lower"] if "lower" in given else given["uplo"] == ord("L")
    dy = factor_tangent(b, succeeded(b, y, info), dx[0], lower)
    return [b.select(compare_places(b, y, "GE" if lower else "LE"), dy, dx[0]), None]


def succeeded(b: StablehloBuilder, y: Value, info: Value) -> Value:
    """y if `info` is zero, else NaN.

    JAX replaces the results of a failed call by NaN. It uses a select, through which the call gets a zero cotangent.
    This function makes tangents and cotangents NaN, too.
    """
    none = b.broadcast_in_dim(b.compare(info, b.zeros_like(info), "EQ"), range(rank(info)), predicate(y.type))
    return b.select(none, y, b.constant(float("nan"), y))
