"""Eigenvalues and eigenvectors of square matrices, a vr = vr diag(w) and vl^H a = diag(w) vl^H.

Vectors are normalized as by LAPACK's geev: their length is 1 and their largest component is real. Their tangents
preserve this. Vectors of equal eigenvalues have no derivative, so their tangents are not finite.

An eigenvalue is defective if it has fewer independent eigenvectors than its multiplicity. Its left and right vector are
then orthogonal. The derivatives of the eigenvalue, and of all eigenvectors of the matrix, are then not finite.

Source: Giles, "An extended collection of matrix derivative results" (2008), section 3.1.
"""

import numpy as np
from torch_mlir import ir

from tiduc.dialect.emitters.matrices import (
    adjoint,
    columns,
    compare_places,
    diagonal,
    epsilon,
    gaps,
    inverse_gaps,
    is_within,
    largest,
    matrix_product,
    rows,
    scaled,
    shifted,
    solve,
    some,
    unless,
)
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.facts.lapack import targets
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.shapes.types import element, is_complex, rank, shape, with_shape
from tiduc.passes.rules.custom_call import custom_call
from tiduc.passes.rules.decomposition import ROUNDING, equality_margin, settings, with_settings
from tiduc.passes.rules.elementwise import times
from tiduc.passes.rules.opset import unsupported
from tiduc.passes.rules.registry import Tangents
from tiduc.passes.rules.spectral import infinite, unless_coupled

ERROR = 64  # bounds the rounding error of an eigenvalue, in units in the last place per row of the matrix


@custom_call(*targets("geev", "geev of reals"))
def eig(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value | None]:
    """dw = diag(p) and dvr = vr (f p), with p = vr^-1 da vr and f_ij = 1 / (w_j - w_i). dvl follows from the adjoints.

    vr^-1 = (vl^H vr)^-1 vl^H. For distinct eigenvalues, vl^H vr is diagonal. In general it is triangular, because
    LAPACK computes both kinds of vectors from one triangular matrix. If the call omits vectors, a second call computes
    them. The tangents of defective eigenvalues are not finite.
    """
    *of_w, vl, vr, _ = op.results
    given = settings(op)
    names = [name for name in ("compute_left", "compute_right", "left", "right") if name in given]
    if len(names) != 2:
        raise unsupported("jvp", op, "its backend_config does not state which eigenvectors it computes")
    left, right = [given[name] in (True, ord("V")) for name in names]
    w = first = b.complex(*of_w) if len(of_w) == 2 else of_w[0]
    if not (left and right):
        both = dict.fromkeys(names, True if isinstance(given[names[0]], bool) else ord("V"))
        *of_w, vl, vr, _ = b.reapply(op, {}, with_settings(op, **both))
        w = b.complex(*of_w) if len(of_w) == 2 else of_w[0]
    da = b.convert(dx[0], element(vl))
    inner = matrix_product(b, adjoint(b, vl), matrix_product(b, da, vr))
    metric, defective = _metric(b, w, matrix_product(b, adjoint(b, vl), vr))
    p = solve(b, metric, inner, left=True, lower=False, adjoint=False)
    dw = b.select(defective, infinite(b, da, defective, vr), diagonal(b, p))
    dw = dw if left or right else _in_order_of(b, first, w, dw)
    inverses = _inverses(b, op, w, defective) if left or right else None
    of_vl, of_vr = None, _moved(b, inverses, vr, p) if right and inverses is not None else None
    if left and inverses is not None:
        q = solve(b, metric, adjoint(b, inner), left=True, lower=False, adjoint=True)
        of_vl = _moved(b, b.conj(inverses), vl, q)
    return [*((b.real(dw), b.imag(dw)) if len(of_w) == 2 else (dw,)), of_vl, of_vr, None]


@custom_call(*targets("geev of cuSOLVER"))
def eig_cusolver(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value | None]:
    """Like `eig`, but without left vectors, which cuSOLVER lacks. Vectors of real matrices are packed (`_unpacked`)."""
    given, (_, first, _, vr, _) = settings(op), op.results
    if given["left"]:
        raise unsupported("jvp", op, "cuSOLVER has no left eigenvectors")
    both = op.results if given["right"] else b.reapply(op, {}, with_settings(op, right=True))
    w, v = both[1], _unpacked(b, both[1], both[3])
    inverse, defective = _inverse(b, v)
    p = matrix_product(b, inverse, matrix_product(b, b.convert(dx[0], element(v)), v))
    if given["right"]:
        dv = _moved(b, _inverses(b, op, w, defective), v, p)
        return [None, diagonal(b, p), None, _packed(b, w, dv, vr), None]
    return [None, _in_order_of(b, first, w, diagonal(b, p)), None, None, None]


def _metric(b: StablehloBuilder, w: Value, metric: Value) -> tuple[Value, Value]:
    """Returns vl^H vr, with zeros between different eigenvalues, and flags of defective eigenvalues.

    An eigenvalue is defective if its diagonal entry of vl^H vr is at most `ROUNDING` units in the last place, or if a
    near eigenvalue is: rounding splits a defective eigenvalue into values that differ by about the root of a unit. Rows
    and columns of defective eigenvalues are replaced by those of the identity, so that the matrix is regular.
    """
    distances = b.abs(gaps(b, w))
    limit = times(b, epsilon(w) ** 0.5, largest(b, w))
    near = is_within(b, distances, limit)
    size = b.abs(diagonal(b, metric))
    small = b.compare(size, b.constant(ROUNDING * epsilon(w), size), "LE")
    defective = some(b, b.and_(near, columns(b, small, near.type)), [rank(w)])
    left_out = b.or_(rows(b, defective, near.type), columns(b, defective, near.type))
    metric = b.select(near, metric, b.zeros_like(metric))
    unit = b.convert(compare_places(b, metric, "EQ"), element(metric))
    return b.select(left_out, unit, metric), defective


def _inverses(b: StablehloBuilder, op: Definition, w: Value, defective: Value) -> Value:
    """Returns 1 / (w_j - w_i), or 0 for equal eigenvalues. All entries are NaN if an eigenvalue is defective."""
    f = inverse_gaps(b, w, equality_margin(b, op, w))
    return unless(b, some(b, defective, [rank(w) - 1]), f)


def _moved(b: StablehloBuilder, inverses: Value, v: Value, p: Value) -> Value:
    """dv = u - v diag(c) with u = v (f p), where f is `inverses`. c makes dv keep the normalization of the vectors.

    Re c keeps each vector's length, and Im c keeps its largest component real, or the mean phase of several largest
    components. Tangents of vectors of equal eigenvalues, where f is zero, are not finite.
    """
    u = matrix_product(b, v, b.multiply(inverses, p))
    along, size, over = b.multiply(b.conj(v), u), b.real(b.multiply(b.conj(v), v)), [rank(v) - 2]
    most = b.reduce(size, b.zero(with_shape(size.type, [])), over, "stablehlo.maximum")
    ties = b.compare(size, columns(b, most, size.type), "EQ")
    turned, squares = (b.reduce_sum(b.select(ties, x, b.zeros_like(x)), over) for x in (b.imag(along), size))
    c = b.complex(b.reduce_sum(b.real(along), over), b.divide(turned, squares))
    return unless_coupled(b, inverses, p, b.subtract(u, b.multiply(v, columns(b, c, v.type))))


def _in_order_of(b: StablehloBuilder, w: Value, other: Value, dw: Value) -> Value:
    """Reorders the tangents dw of the eigenvalues `other` to match w, which has these eigenvalues in another order.

    LAPACK returns eigenvalues in another order when it computes no vectors. Each eigenvalue of w gets the tangent of
    the nearest one of `other`. If w differs from several of them only by rounding, it gets the mean of their tangents,
    which preserves sums over equal eigenvalues.
    """
    count, last = shape(w)[-1], [rank(w)]
    pairs = with_shape(w.type, [*shape(w), count])
    distances = b.abs(b.subtract(columns(b, other, pairs), rows(b, w, pairs)))
    scalar = with_shape(distances.type, [])
    least = b.reduce(distances, b.constant(np.inf, scalar), last, "stablehlo.minimum")
    margin = times(b, ERROR * count * epsilon(w), largest(b, w))
    limit = b.add(least, b.broadcast_in_dim(margin, range(rank(margin)), least.type))
    near = b.compare(distances, rows(b, limit, distances.type), "LE")
    zero, one = b.zeros_like(distances), b.constant(1, distances)
    number = b.reduce_sum(b.select(near, one, zero), last)
    total = b.reduce_sum(b.select(near, columns(b, dw, pairs), b.zero(pairs)), last)
    return scaled(b, b.divide(b.constant(1, number), number), total)


def _inverse(b: StablehloBuilder, v: Value) -> tuple[Value, Value]:
    """Returns v^-1, and flags of defective eigenvalues. Uses a Cholesky factor of v^H v and one Newton step.

    The condition number of v^H v is the square of that of v. v^-1 therefore has three correct digits if its rows are
    shorter than 1 / (4 sqrt(epsilon)). If a row is longer, its eigenvalue counts as defective, and v^-1 is NaN.
    """
    gram = matrix_product(b, adjoint(b, v), v)
    factor = b.emit("stablehlo.cholesky", (gram,), v.type, {"lower": ir.BoolAttr.get(True)})
    half = solve(b, factor, adjoint(b, v), left=True, lower=True, adjoint=False)
    x = solve(b, factor, half, left=True, lower=True, adjoint=True)
    x = b.subtract(b.add(x, x), matrix_product(b, x, matrix_product(b, v, x)))
    size = b.reduce_sum(b.real(b.multiply(b.conj(x), x)), [rank(v) - 1])
    regular = b.compare(size, b.constant(1 / (16 * epsilon(v)), size), "LT")
    defective = b.compare(regular, b.zeros_like(regular), "EQ")
    return unless(b, some(b, defective, [rank(v) - 2]), x), defective


def _unpacked(b: StablehloBuilder, w: Value, v: Value) -> Value:
    """Converts the packed eigenvectors of a real matrix to complex ones. Returns complex v unchanged.

    Of two conjugate vectors, the first with Im w > 0, v has the real part and then the imaginary part of the first.
    """
    if is_complex(v):
        return v
    first, second = _pairs(b, w, v)
    before, after = shifted(b, v, 1, -1), shifted(b, v, -1, -1)
    im = b.select(first, after, b.select(second, b.negate(v), b.zeros_like(v)))
    return b.complex(b.select(second, before, v), im)


def _packed(b: StablehloBuilder, w: Value, dv: Value, v: Value) -> Value:
    """The inverse of `_unpacked`, for the tangents dv of the vectors v."""
    if is_complex(v):
        return dv
    return b.select(_pairs(b, w, v)[1], b.negate(b.imag(dv)), b.real(dv))


def _pairs(b: StablehloBuilder, w: Value, v: Value) -> list[Value]:
    """Returns two masks of v: the first, and the second, columns of pairs of conjugate eigenvectors."""
    im = columns(b, b.imag(w), v.type)
    return [b.compare(im, b.zeros_like(im), direction) for direction in ("GT", "LT")]
