"""Rules of LAPACK, cuSOLVER and TPU (XLA) calls that compute a v = v diag(w) for a Hermitian matrix a.

The call reads one triangle of a, and only the real part of the diagonal, so only these entries have a derivative. The
tangents dv are chosen such that v^H dv has a zero diagonal. The derivative is therefore right for functions that do not
depend on the phases of vectors. `spectral.py` has the rules for equal eigenvalues.

Source: Giles, "An extended collection of matrix derivative results" (2008), section 3.1.
"""

from torch_mlir import ir

from tiduc.dialect.emitters.matrices import (
    adjoint,
    compare_places,
    diagonal,
    inverse_gaps,
    matrix_product,
    scaled,
    some,
    triangle,
)
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.facts.lapack import targets
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.shapes.types import rank, shape
from tiduc.passes.rules.custom_call import custom_call
from tiduc.passes.rules.decomposition import config, equality_margin, settings, with_settings
from tiduc.passes.rules.opset import unsupported
from tiduc.passes.rules.registry import Tangents
from tiduc.passes.rules.spectral import couple, equal_values, sums, unless_equal, vectors_of


@custom_call(*targets("syevd", "Eigh"))
def eigh(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value | None]:
    """dw = diag(c) and dv = v (f c), with c = v^H da v and f_ij = 1 / (w_j - w_i). The product f c is elementwise."""
    v, w, *others = op.results
    if shape(v) != shape(op.operands[0]):
        raise unsupported("jvp", op, "only some of the eigenvalues are computed")
    lower, given = _kind(op)
    if not given:
        v = b.reapply(op, {}, with_settings(op, mode=ord("V")))[0]
    c = matrix_product(b, adjoint(b, v), matrix_product(b, hermitian(b, dx[0], lower), v))
    dv = _of_vectors(b, op, v, w, c) if given else None
    return [dv, b.real(diagonal(b, c)), *[None] * len(others)]


def _of_vectors(b: StablehloBuilder, op: Definition, v: Value, w: Value, c: Value) -> Value:
    """dv = v (f c). It is not finite for equal eigenvalues, unless the program uses their vectors only in sums."""
    margin = equality_margin(b, op, w)
    dv: Value = matrix_product(b, v, scaled(b, inverse_gaps(b, w, margin), c))
    equal = equal_values(b, w, margin)
    found = sums(b, w, {v: vectors_of(v)})
    if found is None:
        return unless_equal(b, some(b, equal, [rank(equal) - 1]), c, dv)
    couple(b, found, c, equal, lambda each: None)
    return dv


def _kind(op: Definition) -> tuple[bool, bool]:
    """Whether the op reads the lower triangle, and whether it computes vectors."""
    _, attribute = config(op)
    if isinstance(attribute, ir.StringAttr):  # the text of a TPU call: lower, sorted, sweeps, tolerance
        return attribute.value.startswith("1"), True
    given = settings(op)
    if "lower" in given:
        return given["lower"], True
    return given["uplo"] == ord("L"), given["mode"] == ord("V")


def hermitian(b: StablehloBuilder, x: Value, lower: bool) -> Value:
    """The Hermitian matrix with one triangle of x, and with the real part of the diagonal of x."""
    half, one = b.constant(0.5, x), b.constant(1, x)
    weights = b.select(compare_places(b, x, "EQ"), half, one)
    part = triangle(b, b.multiply(weights, x), lower)
    return b.add(part, adjoint(b, part))
