"""Rule of Schur forms of complex matrices, a = z t z^H with t upper triangular. Refuses some related reductions.

The tangent dz is chosen such that z^H dz has a zero diagonal. The derivative is therefore right for functions that do
not depend on the phases of the columns of z. It is not finite for equal eigenvalues. JAX has no derivatives of these
ops.

The equations are those of perturbation theory, as in Stewart and Sun, "Matrix Perturbation Theory" (1990), chapter V.
The rule solves them with the eigenvectors of t.
"""

from torch_mlir import ir

from tiduc.dialect.emitters.matrices import (
    adjoint,
    compare_places,
    diagonal,
    gaps,
    is_within,
    matrix_product,
    solve,
    triangle,
)
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.facts.lapack import targets
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.ops.control_ops import CUSTOM_CALL
from tiduc.dialect.shapes.types import element, shape, with_element, with_shape
from tiduc.passes.rules.custom_call import custom_call
from tiduc.passes.rules.decomposition import equality_margin, settings, with_settings
from tiduc.passes.rules.opset import refuse
from tiduc.passes.rules.registry import Tangents

refuse(
    "the Schur form of a real matrix has 2x2 blocks; only the complex Schur form has a rule",
    *(f"{CUSTOM_CALL} @{target}" for target in targets("gees of reals")),
)
refuse(
    "its Householder vectors depend on one another, so their derivative has no closed form",
    *(f"{CUSTOM_CALL} @{target}" for target in targets("gehrd", "sytrd")),
)


@custom_call(*targets("gees"))
def schur(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value | None]:
    """dz = z x and dt = c + t x - x t. Here c = z^H da z, x = y - y^H, and y is strictly lower triangular.

    y follows from dt = 0 below the diagonal. Let p be the triangular matrix of eigenvectors of t, and m the strictly
    lower part of p^-1 y p. Below the diagonal, (p^-1 c p)_ij + (t_i - t_j) m_ij = 0, which gives m. Then y is the
    strictly lower part of p m p^-1.
    """
    t, z, *_ = op.results
    vectors = settings(op)["mode"] == ord("V")
    if not vectors:
        z = b.reapply(op, {}, with_settings(op, mode=ord("V")))[1]
    c = matrix_product(b, adjoint(b, z), matrix_product(b, dx[0], z))
    p, w = _eigenvectors(b, t), diagonal(b, t)
    inner = _solved(b, p, matrix_product(b, c, p))
    distances, margin = gaps(b, w), equality_margin(b, op, w)
    equal = is_within(b, b.abs(distances), margin)
    distances = b.select(equal, b.constant(float("nan"), t.type), distances)
    below = compare_places(b, t, "GT")
    distances = b.select(below, distances, b.constant(1, t.type))
    m = b.divide(b.select(below, inner, b.zero(t.type)), distances)
    y = solve(b, p, matrix_product(b, p, m), left=False, lower=False, adjoint=False)
    y = triangle(b, y, lower=True, strict=True)
    x = b.subtract(y, adjoint(b, y))
    dt = b.add(c, b.subtract(matrix_product(b, t, x), matrix_product(b, x, t)))
    dt = triangle(b, dt, lower=False)
    return [dt, matrix_product(b, z, x) if vectors else None, diagonal(b, dt), None, None]


def _solved(b: StablehloBuilder, p: Value, y: Value) -> Value:
    return solve(b, p, y, left=True, lower=False, adjoint=False)


def _eigenvectors(b: StablehloBuilder, t: Value) -> Value:
    """Returns the eigenvectors of the upper triangular t, with ones on the diagonal, computed by one batched solve.

    The matrix of the system for vector j is t - t_jj in the rows and columns before j, and the identity elsewhere.
    """
    *batch, n, _ = shape(t)
    last = len(batch)
    many = with_shape(t.type, [*batch, n, n, n])
    of_t = b.broadcast_in_dim(t, [*range(last), last + 1, last + 2], many)
    shift = b.broadcast_in_dim(diagonal(b, t), range(last + 1), many)
    integers = with_element(many, ir.IntegerType.get_signless(32))
    number, row, column = (b.iota(last + i, integers) for i in range(3))
    before = b.and_(b.compare(row, number, "LT"), b.compare(column, number, "LT"))
    unit = b.convert(b.compare(row, column, "EQ"), element(t))
    system = b.select(before, b.subtract(of_t, b.multiply(unit, shift)), unit)
    turned = b.transpose(t, [*range(last), last + 1, last])
    ones = b.convert(compare_places(b, t, "EQ"), element(t))
    right = b.subtract(ones, triangle(b, turned, lower=True, strict=True))
    p = b.reshape(_solved(b, system, b.reshape(right, [*batch, n, n, 1])), [*batch, n, n])
    return b.transpose(p, [*range(last), last + 1, last])
