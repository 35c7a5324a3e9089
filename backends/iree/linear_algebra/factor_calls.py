"""QR factors, eigenvalues and singular values: the calls of LAPACK, cuSOLVER, hipSOLVER and TPUs."""

from collections.abc import Sequence
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter
from tiduc.backends.iree.linear_algebra.implementations import implementation
from tiduc.backends.iree.linear_algebra.matrices import adjoint, identity
from tiduc.backends.iree.linear_algebra.routines import is_lower, routine, settings
from tiduc.backends.iree.refused import refused
from tiduc.dialect.types import is_empty, shape
from tiduc.passes.rules.svd import OF_V

# ---- QR ---------------------------------------------------------------------------------------------------------


@routine("geqrf")
def geqrf(b: Emitter, op: Any, a: Any) -> Sequence[Any]:
    """The packed factors and tau; each column is reflected onto its diagonal entry."""
    return implementation(b, "qr")(b, a)


def _all_columns(b: Emitter, op: Any) -> Sequence[Any]:
    a, order, taus = op.results
    columns = b.iota(len(order.type.shape) - 1, order.type)
    return b.zero(a.type), b.add(columns, b.constant(1, columns)), b.zero(taus.type)


@routine("geqp3", empty=_all_columns)
def geqp3(b: Emitter, op: Any, a: Any, wanted: Any) -> Sequence[Any]:
    """QR factors with pivoting: the longest column that is left is next, after those with nonzero numbers.

    The numbers of columns count from one.
    """
    qr, order, taus = implementation(b, "pivoted_qr")(b, a, wanted)
    return qr, b.add(order, b.constant(1, order)), taus


@routine("orgqr")
def orgqr(b: Emitter, op: Any, a: Any, taus: Any) -> Sequence[Any]:
    """The first columns of Q: those of the unit matrix, reflected by the last reflection first."""
    return implementation(b, "multiply_by_q")(b, a, taus, identity(b, a), False)


@routine("ormqr")
def ormqr(b: Emitter, op: Any, a: Any, taus: Any, c: Any) -> Sequence[Any]:
    """Q c, Q^H c, c Q or c Q^H, one reflection after the other."""
    given, multiply = settings(op), implementation(b, "multiply_by_q")
    if is_empty(taus) or is_empty(c):
        return [c]
    if given["left"]:
        return multiply(b, a, taus, c, given["transpose"])
    (x,) = multiply(b, a, taus, adjoint(b, c), not given["transpose"])
    return [adjoint(b, x)]


# ---- eigenvalues ------------------------------------------------------------------------------------------------


@routine("syevd")
def syevd(b: Emitter, op: Any, a: Any) -> Sequence[Any]:
    """Vectors if asked for, values, and `info`: 1 if the sweeps do not converge or the matrix is not finite."""
    vectors = settings(op).get("mode", ord("V")) == ord("V")
    w, info, *v = _eigh(b, a, is_lower(op), vectors)
    return *(v or [a]), w, info


@routine("Eigh")
def eigh(b: Emitter, op: Any, a: Any) -> Sequence[Any]:
    """`syevd` for TPUs, whose settings are text."""
    text = op.attributes.get("backend_config")
    if not isinstance(text, ir.StringAttr):
        raise refused(op, "its settings are no text")
    if shape(op.results[0]) != shape(op.operands[0]):
        raise refused(op, "only some of the eigenvalues are wanted")
    w, _, v = _eigh(b, a, text.value.startswith("1"), True)
    return v, w


def _eigh(b: Emitter, a: Any, lower: bool, vectors: bool) -> Sequence[Any]:
    return implementation(b, "eigh")(b, a if lower else adjoint(b, a), vectors)


@routine("geev", "geev of reals")
def geev(b: Emitter, op: Any, a: Any) -> Sequence[Any]:
    """Values in no order, the vectors asked for, and `info` as in `syevd`."""
    *of_w, vl, vr, _ = op.results
    given = settings(op)
    left, right = (
        given.get(f"compute_{side}", given.get(side)) in (True, ord("V")) for side in ("left", "right")
    )
    how = implementation(b, "eig_with_left_vectors" if left else "eig")
    w, info, *vectors = how(b, a, left, right)
    values = [w] if len(of_w) == 1 else [b.real(w), b.imag(w)]
    both = [vectors.pop(0) if asked else b.zero(y.type) for asked, y in ((left, vl), (right, vr))]
    return *values, *both, info


# ---- singular values --------------------------------------------------------------------------------------------


def _none(b: Emitter, op: Any) -> Sequence[Any]:
    """The results for an empty matrix."""
    _, _, third, fourth, _ = op.results
    if _wanted(op)[0] and not (is_empty(third) and is_empty(fourth)):
        raise refused(op, "its matrix is empty, and its vectors are not")
    return [b.zero(y.type) for y in op.results]


@routine("gesdd", "gesvd", "gesvdj", empty=_none)
def svd(b: Emitter, op: Any, a: Any) -> Sequence[Any]:
    """Values, vectors if asked for, and `info` as in `syevd`; the first result is of no use."""
    _, _, third, fourth, _ = op.results
    vectors, turned, of_v = _wanted(op)
    if not vectors:
        s, info = implementation(b, "svd")(b, a, 0)
        return a, s, b.zero(third.type), b.zero(fourth.type), info
    count = (max if _is_full(op, turned, of_v) else min)(shape(a)[1:])
    s, info, u, vh = implementation(b, "svd")(b, a, count)
    both = u, adjoint(b, vh) if of_v else vh
    return a, s, *(both[::-1] if turned else both), info


def _wanted(op: Any) -> tuple[bool, bool, bool]:
    """Whether vectors are wanted, whether those of v come first, and whether v is wanted, not its adjoint."""
    given = settings(op)
    if "mode" not in given:
        of_v = ir.StringAttr(op.attributes["call_target_name"]).value in OF_V
        return bool(given["compute_uv"]), bool(given.get("transposed", False)), of_v
    if given["mode"] == ord("O"):
        raise refused(op, "singular vectors that overwrite the matrix (mode O) are not supported")
    return given["mode"] != ord("N"), False, False


def _is_full(op: Any, turned: bool, of_v: bool) -> bool:
    """Whether both matrices of vectors are square; otherwise they have as many vectors as there are values."""
    m, n = shape(op.operands[0])[-2:]
    u, v = list(op.results)[2:4][:: -1 if turned else 1]
    counts = shape(u)[-1], shape(v)[-1 if of_v else -2]
    if counts not in ((m, n), (min(m, n),) * 2):
        raise refused(op, f"of {m} by {n} matrices there are no {counts[0]} and {counts[1]} vectors")
    return counts == (m, n)
