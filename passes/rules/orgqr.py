"""LAPACK, cuSOLVER and XLA (TPU) calls for products of reflectors: Q = H_1 H_2 ... with H_i = 1 - tau_i v_i v_i^H.

v_i is column i of the matrix a below the diagonal, with a one on the diagonal and zeros above. The rule linearizes the
formula

    Q = 1 - V T V^H,  T = (1 + D S)^-1 D,  D = diag(tau),  S the strict upper triangle of V^H V

of Schreiber and Van Loan, "A storage-efficient WY representation for products of Householder transformations" (1989),
in the form of Joffrain et al., "Accumulating Householder transformations, revisited" (2006), which has no 1 / tau. If a
and tau are results of `geqrf`, the rule uses the derivative of the factor Q instead (`geqrf.py`).
"""

from tiduc.dialect.emitters.matrices import (
    adjoint,
    compare_places,
    corner,
    matrix_product,
    rows,
    solve,
    unit_lower,
)
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.facts.lapack import targets
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.shapes.types import shape
from tiduc.passes.rules.custom_call import custom_call
from tiduc.passes.rules.decomposition import settings
from tiduc.passes.rules.expansion import expanded
from tiduc.passes.rules.registry import Tangents


@custom_call(*targets("orgqr"))
def orgqr(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value | None]:
    """The tangent of the first columns of Q, of which there are as many as columns of a."""
    if 0 in (*shape(op.operands[0]), *shape(op.operands[1])):
        return [None]
    if (known := _of_factors(b, op)) is not None:
        y, turn = known
        return [b.add(matrix_product(b, op.result, turn), y)]

    def product(a: Value, tau: Value) -> list[Value]:
        v = reflectors(b, a, shape(tau)[-1])
        one = b.select(compare_places(b, a, "EQ"), b.constant(1, a), b.zeros_like(a))
        vh = adjoint(b, corner(b, v, shape(a)[-1], shape(tau)[-1]))
        return [b.subtract(one, matrix_product(b, v, middle(b, v, tau, vh)))]

    return expanded(b, op.operands, dx, product)


@custom_call(*targets("ormqr"))
def ormqr(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value | None]:
    """The tangent of Q c, Q^H c, c Q or c Q^H, whichever the call computes."""
    given = settings(op)
    left, turned = given["left"], given["transpose"]
    if any(0 in shape(x) for x in op.operands):
        return [None if dx[2] is None else b.reapply(op, {2: dx[2]})[0]]

    def product(a: Value, tau: Value, c: Value) -> list[Value]:
        v = reflectors(b, a, shape(tau)[-1])
        if left:
            return [multiplied(b, v, tau, c, turned)]
        return [adjoint(b, multiplied(b, v, tau, adjoint(b, c), not turned))]

    return expanded(b, op.operands, dx, product)


def _of_factors(b: StablehloBuilder, op: Definition) -> tuple[Value, Value] | None:
    """Returns (y, turn), which the rule of `geqrf` recorded, or None if no `geqrf` of this shape gave the operands."""
    a, tau = op.operands
    if tau not in b.notes.factors:
        return None
    qr, y, turn = b.notes.factors[tau]
    call = a.definition
    if call is not None and call.name == "stablehlo.slice" and shape(a) == shape(y):
        if not any(call.attributes["start_indices"]) and set(call.attributes["strides"]) == {1}:
            a = call.operands[0]
    return (y, turn) if a is qr and shape(op.result) == shape(y) else None


def reflectors(b: StablehloBuilder, a: Value, count: int) -> Value:
    """V: the first `count` columns of a, with ones on the diagonal and zeros above."""
    return unit_lower(b, corner(b, a, shape(a)[-2], count))


def multiplied(b: StablehloBuilder, v: Value, tau: Value, c: Value, turned: bool) -> Value:
    """Q c = c - V T (V^H c); with `turned`, Q^H c = c - V T^H (V^H c)."""
    return b.subtract(c, matrix_product(b, v, middle(b, v, tau, matrix_product(b, adjoint(b, v), c), turned)))


def middle(b: StablehloBuilder, v: Value, tau: Value, x: Value, turned: bool = False) -> Value:
    """T x, or T^H x = D^H (1 + D S)^-H x."""
    overlaps = matrix_product(b, adjoint(b, v), v)
    ds = b.multiply(rows(b, tau, overlaps.type), overlaps)
    if not turned:
        x = b.multiply(rows(b, tau, x.type), x)
    y = solve(b, ds, x, left=True, lower=False, adjoint=turned, unit=True)
    return b.multiply(rows(b, b.conj(tau), x.type), y) if turned else y
