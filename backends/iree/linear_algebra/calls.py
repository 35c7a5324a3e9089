"""The patterns for factorizations and solves: ops of StableHLO, and calls of LAPACK, cuSOLVER, hipSOLVER and TPUs.

Each function reads the settings of an op, calls `compute` (implementations.py), and returns the op's results. Operands
are batches (routines.py).
"""

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.backends.iree.emit.emitter import Emitter, legalize, legalize_call
from tiduc.backends.iree.emit.refused import refused
from tiduc.backends.iree.fault import missing
from tiduc.backends.iree.linear_algebra.implementations import compute
from tiduc.backends.iree.linear_algebra.routines import in_order, is_lower, on_batches, routine, settings
from tiduc.dialect.emitters.matrices import adjoint, compare_places, exchanged
from tiduc.dialect.facts.lapack import targets
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import is_empty, shape
from tiduc.passes.rules.svd import VectorLayout
from tiduc.passes.rules.triangular_solve import flag
from tiduc.passes.rules.trsm import solve_attributes

# ---- Cholesky and LU --------------------------------------------------------------------------------------------


@legalize("stablehlo.cholesky")
@missing(
    "IREE lacks the op; tiduc emits L with a = L L^H, in one dispatch.",
    "cholesky",
    upstream="https://github.com/iree-org/iree/issues/10816",
)
def cholesky(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """The factor L with a = L L^H if the op's flag `lower` is set, otherwise L^H. The other triangle is zero."""
    lower = flag(op, "lower")
    return on_batches(b, op, [2], lambda a: compute(b, "cholesky", a, lower=lower, keep=False)[:1])


# potrf returns a matrix and `info`. One triangle of the matrix has the factor; the other triangle is unchanged. `info`
# is the number, counted from one, of the first column whose diagonal entry is not positive, or 0 if all are positive.
routine("potrf")(lambda b, op, a: compute(b, "cholesky", a, lower=is_lower(op), keep=True))


@routine("getrf")
def getrf(b: Emitter, op: IrOp, a: IrValue) -> Sequence[IrValue]:
    """The LU factors; the pivots; and `info`: the number of the first zero pivot, or 0. All numbers count from one."""
    lu, pivots, info = compute(b, "lu", a)
    return lu, b.add(pivots, b.constant(1, pivots)), info


@routine("LuDecomposition", empty=in_order(-1, 0))
def lu_decomposition(b: Emitter, op: IrOp, a: IrValue) -> Sequence[IrValue]:
    """The LU factors; the pivots, counted from zero; and the permutation of rows that the pivots produce."""
    lu, pivots, _ = compute(b, "lu", a)
    return lu, pivots, exchanged(b, pivots, shape(a)[1])


@routine("pivots_to_permutation", empty=in_order(-1, 0))
def pivots_to_permutation(b: Emitter, op: IrOp, pivots: IrValue) -> Sequence[IrValue]:
    """The permutation of rows that results from the row exchanges that the pivots describe."""
    return [exchanged(b, pivots, shape(op.results[0])[-1])]


# ---- solves -----------------------------------------------------------------------------------------------------


@legalize("stablehlo.triangular_solve")
@missing(
    "IREE lacks the op; tiduc substitutes row by row, in one dispatch.",
    "triangular_solve",
    upstream="https://github.com/iree-org/iree/issues/11018",
)
def triangular_solve(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Solves op(a) x = c or x op(a) = c. a is triangular; op(a) is a, its transpose or its adjoint."""
    left, lower, unit = (op.attributes[name].value for name in ("left_side", "lower", "unit_diagonal"))
    kind = hlo.TransposeAttr(op.attributes["transpose_a"]).value
    how = {"left": left, "lower": lower, "unit": unit, "transpose": kind != "NO_TRANSPOSE"}

    def solve(a: IrValue, c: IrValue) -> Sequence[IrValue]:
        return compute(b, "triangular solve", b.conj(a) if kind == "ADJOINT" else a, c, **how)

    return [op.operands[1]] if is_empty(op.operands[1]) else on_batches(b, op, [2, 2], solve)


@legalize_call(*targets("trsm"))
def trsm(b: Emitter, op: IrOp) -> Sequence[IrValue]:
    """Replaces the call by a `stablehlo.triangular_solve`."""
    attributes = solve_attributes(settings(op))
    return [b.emit("stablehlo.triangular_solve", list(op.operands), op.results[0].type, attributes)]


# gtsv eliminates with partial pivoting. It returns the second superdiagonal, the main diagonal and the first
# superdiagonal of the factor U; the solution x; and LAPACK's `info`. gtsv2 and the perturbed solve return only x. The
# perturbed solve is for inverse iteration, whose matrices are almost singular. It moves small pivots away from zero.
routine("gtsv")(lambda b, op, *xs: compute(b, "tridiagonal solve", *xs, perturb=False))
routine("gtsv2")(lambda b, op, *xs: compute(b, "tridiagonal solve", *xs, perturb=False)[3:4])
routine("tridiagonal_solve_perturbed")(
    lambda b, op, *xs: compute(b, "tridiagonal solve", *xs, perturb=True)[3:4]
)


# ---- QR ---------------------------------------------------------------------------------------------------------


# geqrf returns the packed factors of a QR factorization (qr.py), and the row tau of its reflections (reflectors.py).
routine("geqrf")(lambda b, op, a: compute(b, "qr", a))


@routine("geqp3", empty=in_order(1, 1))
def geqp3(b: Emitter, op: IrOp, a: IrValue, wanted: IrValue) -> Sequence[IrValue]:
    """The packed QR factors with column pivoting; the order of the columns, counted from one; and tau.

    The columns with a nonzero entry in `wanted` come first. Each later step chooses the longest remaining column.
    """
    qr, order, taus = compute(b, "pivoted qr", a, wanted)
    return qr, b.add(order, b.constant(1, order)), taus


@routine("orgqr")
def orgqr(b: Emitter, op: IrOp, a: IrValue, taus: IrValue) -> Sequence[IrValue]:
    """The first columns of Q. Applies the reflections, the last one first, to columns of the unit matrix."""
    identity = b.select(compare_places(b, a, "EQ"), b.constant(1, a), b.zeros_like(a))
    return compute(b, "multiply by q", a, taus, identity, adjoint=False)


@routine("ormqr")
def ormqr(b: Emitter, op: IrOp, a: IrValue, taus: IrValue, c: IrValue) -> Sequence[IrValue]:
    """Returns Q c, Q^H c, c Q or c Q^H, as the call's settings say. Applies the reflections one by one."""
    given = settings(op)
    if is_empty(taus) or is_empty(c):
        return [c]
    if given["left"]:
        return compute(b, "multiply by q", a, taus, c, adjoint=given["transpose"])
    (x,) = compute(b, "multiply by q", a, taus, adjoint(b, c), adjoint=not given["transpose"])
    return [adjoint(b, x)]


# ---- eigenvalues ------------------------------------------------------------------------------------------------


@routine("syevd")
def syevd(b: Emitter, op: IrOp, a: IrValue) -> Sequence[IrValue]:
    """The eigenvectors, or `a` if no vectors are requested; the eigenvalues; and `info`.

    `info` is 1 if the iteration does not converge or the matrix is not finite, and otherwise 0.
    """
    vectors = settings(op).get("mode", ord("V")) == ord("V")
    results = compute(b, "eigh", a if is_lower(op) else adjoint(b, a), vectors=vectors)
    return results if vectors else [a, *results]


@routine("Eigh")
def eigh(b: Emitter, op: IrOp, a: IrValue) -> Sequence[IrValue]:
    """Eigenvectors and eigenvalues for the calls of TPUs, which store their settings in a string.

    Raises `Unsupported` if the settings are no string, or if the call asks for only some of the eigenvalues.
    """
    text = op.attributes.get("backend_config")
    if not isinstance(text, ir.StringAttr):
        raise refused(op, "its backend_config is not a string")
    if shape(op.results[0]) != shape(op.operands[0]):
        raise refused(op, "it asks for only some of the eigenvalues")
    lower = text.value.startswith("1")
    return compute(b, "eigh", a if lower else adjoint(b, a), vectors=True)[:2]


@routine("geev", "geev of reals")
def geev(b: Emitter, op: IrOp, a: IrValue) -> Sequence[IrValue]:
    """Eigenvalues in no particular order, left and right eigenvectors, and `info` as for `syevd`.

    Vectors that are not requested are zero. Some calls have two results for the eigenvalues: the real parts, and the
    imaginary parts.
    """
    *of_w, vl, vr, _ = op.results
    given = settings(op)
    left, right = (
        given.get(f"compute_{side}", given.get(side)) in (True, ord("V")) for side in ("left", "right")
    )
    w, *vectors, info = compute(b, "eig with left vectors" if left else "eig", a, left=left, right=right)
    values = [w] if len(of_w) == 1 else [b.real(w), b.imag(w)]
    both = [vectors.pop(0) if asked else b.zero(y.type) for asked, y in ((left, vl), (right, vr))]
    return *values, *both, info


# ---- singular values --------------------------------------------------------------------------------------------


def _of_empty_matrix(b: Emitter, op: IrOp) -> Sequence[IrValue]:
    """The results for an empty matrix: zeros. Raises `Unsupported` if a result for singular vectors has elements."""
    _, _, third, fourth, _ = op.results
    if _layout(op).vectors and not (is_empty(third) and is_empty(fourth)):
        raise refused(op, "the matrix is empty, but the result type for its singular vectors has elements")
    return [b.zero(y.type) for y in op.results]


@routine("gesdd", "gesvd", "gesvdj", empty=_of_empty_matrix)
def svd(b: Emitter, op: IrOp, a: IrValue) -> Sequence[IrValue]:
    """Returns `a`, which is never read; the singular values; the left and right vectors; and `info` as for `syevd`.

    Vectors that are not requested are zero.
    """
    _, _, third, fourth, _ = op.results
    layout = _layout(op)
    if not layout.vectors:
        s, info = compute(b, "svd", a, vectors=0)
        return a, s, b.zero(third.type), b.zero(fourth.type), info
    u, s, vh, info = compute(b, "svd", a, vectors=_number_of_longer_vectors(op, layout))
    return a, s, *layout.ordered(u, adjoint(b, vh) if layout.of_v else vh), info


def _layout(op: IrOp) -> VectorLayout:
    return VectorLayout.of(settings(op), ir.StringAttr(op.attributes["call_target_name"]).value)


def _number_of_longer_vectors(op: IrOp, layout: VectorLayout) -> int:
    """The number of left vectors of an m by n matrix or, if n is greater than m, the number of right vectors.

    It is max(m, n) if the call asks for all vectors, else min(m, n). Raises `Unsupported` for other numbers.
    """
    m, n = shape(op.operands[0])[-2:]
    u, v = layout.ordered(*list(op.results)[2:4])
    counts = shape(u)[-1], shape(v)[-1 if layout.of_v else -2]
    if counts not in ((m, n), (min(m, n),) * 2):
        raise refused(op, f"{m} by {n} matrices do not have {counts[0]} left and {counts[1]} right vectors")
    return int(max(counts))
