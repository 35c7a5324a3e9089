"""QR factors, eigenvalues and singular values: the calls of LAPACK, cuSOLVER, hipSOLVER and TPUs."""

from collections.abc import Sequence
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.calls import legalize_call
from tiduc.backends.iree.emitter import Emitter, signless
from tiduc.backends.iree.linear_algebra.implementations import implementation
from tiduc.backends.iree.linear_algebra.matrices import (
    adjoint,
    batched,
    checked,
    is_lower,
    ones,
    restored,
    restored_all,
    settings,
    vectors,
)
from tiduc.backends.iree.refused import refused
from tiduc.dialect.lapack import targets
from tiduc.dialect.types import is_empty, shape, with_element
from tiduc.passes.rules.eigh import hermitian
from tiduc.passes.rules.svd import OF_V

# ---- QR ---------------------------------------------------------------------------------------------------------


@legalize_call(*targets("geqrf"))
def geqrf(b: Emitter, op: Any) -> Sequence[Any]:
    """The factors and tau, column by column; each column is reflected onto its diagonal entry."""
    (a,) = checked(op).operands
    if is_empty(a):
        return [a, b.zero(op.results[1].type)]
    return restored_all(b, op, implementation(b, "qr")(b, batched(b, a)))


@legalize_call(*targets("geqp3"))
def geqp3(b: Emitter, op: Any) -> Sequence[Any]:
    """QR factors with pivoting: the longest column that is left is next, after those with nonzero numbers.

    The numbers of columns count from one.
    """
    a, wanted = checked(op).operands
    if is_empty(a):
        type_ = op.results[1].type
        order = b.iota(len(type_.shape) - 1, type_)
        return [a, b.add(order, b.constant(1, order)), b.zero(op.results[2].type)]
    qr, order, taus = implementation(b, "pivoted_qr")(b, batched(b, a), vectors(b, wanted))
    return restored_all(b, op, (qr, b.add(order, b.constant(1, order)), taus))


@legalize_call(*targets("orgqr"))
def orgqr(b: Emitter, op: Any) -> Sequence[Any]:
    """The first columns of Q: those of the unit matrix, reflected by the last reflection first."""
    a, tau = checked(op).operands
    if is_empty(a):
        return [a]
    x = batched(b, a)
    row, column = (b.iota(i, with_element(x.type, signless(32))) for i in (1, 2))
    unit = ones(b, b.compare(row, column, "EQ"), x)
    return restored_all(b, op, [_multiplied(b, x, tau, unit, False)])


@legalize_call(*targets("ormqr"))
def ormqr(b: Emitter, op: Any) -> Sequence[Any]:
    """Q c, Q^H c, c Q or c Q^H, one reflection after the other."""
    a, tau, c = checked(op).operands
    given = settings(op)
    if any(is_empty(x) for x in (a, tau, c)):
        return [c]
    turned, qr, x = bool(given["transpose"]), batched(b, a), batched(b, c)
    if given["left"]:
        y = _multiplied(b, qr, tau, x, turned)
    else:
        y = adjoint(b, _multiplied(b, qr, tau, adjoint(b, x), not turned))
    return restored_all(b, op, [y])


def _multiplied(b: Emitter, qr: Any, tau: Any, x: Any, adjoint: bool) -> Any:
    return implementation(b, "multiply_by_q")(b, qr, vectors(b, tau), x, adjoint)


# ---- eigenvalues ------------------------------------------------------------------------------------------------


@legalize_call(*targets("syevd"))
def syevd(b: Emitter, op: Any) -> Sequence[Any]:
    """Vectors, values, and `info`: 1 if the sweeps do not converge or the matrix is not finite."""
    given = settings(op)
    return _eigh(b, op, is_lower(op), "mode" not in given or given["mode"] == ord("V"))


@legalize_call("Eigh")
def eigh(b: Emitter, op: Any) -> Sequence[Any]:
    """`syevd` for TPUs, whose settings are text."""
    text = op.attributes.get("backend_config")
    if not isinstance(text, ir.StringAttr):
        raise refused(op, "its settings are no text")
    return _eigh(b, op, text.value.startswith("1"), True)


def _eigh(b: Emitter, op: Any, lower: bool, vectors: bool) -> list[Any]:
    (a,) = checked(op).operands
    if is_empty(a):
        return [b.zero(y.type) for y in op.results]
    if shape(op.results[0]) != shape(a):
        raise refused(op, "only some of the eigenvalues are wanted")
    v, w, info = implementation(b, "eigh")(b, hermitian(b, batched(b, a), lower), vectors)
    return restored_all(b, op, (v if vectors else a, w, info)[: len(op.results)])


@legalize_call(*targets("geev", "geev of reals"))
def geev(b: Emitter, op: Any) -> Sequence[Any]:
    """Values in no order, the vectors asked for, and `info` as in `syevd`."""
    (a,) = checked(op).operands
    *of_w, vl, vr, _ = op.results
    if is_empty(a):
        return [b.zero(y.type) for y in op.results]
    given = settings(op)
    left, right = (
        given.get(f"compute_{side}", given.get(side)) in (True, ord("V")) for side in ("left", "right")
    )
    how = implementation(b, "eig_with_left_vectors" if left else "eig")
    w, of_left, of_right, info = how(b, batched(b, a), left, right)
    values = [w] if len(of_w) == 1 else [b.real(w), b.imag(w)]
    both = [b.zero(y.type) if v is None else v for v, y in ((of_left, vl), (of_right, vr))]
    return restored_all(b, op, (*values, *both, info))


# ---- singular values --------------------------------------------------------------------------------------------


@legalize_call(*targets("gesdd", "gesvd", "gesvdj"))
def svd(b: Emitter, op: Any) -> Sequence[Any]:
    """Values, vectors if asked for, and `info` as in `syevd`; the first result is of no use."""
    (a,) = checked(op).operands
    _, s, third, fourth, info = op.results
    vectors, turned, of_v = _wanted(op)
    if is_empty(a):
        if vectors and not (is_empty(third) and is_empty(fourth)):
            raise refused(op, "its matrix is empty, and its vectors are not")
        return [a, *[b.zero(y.type) for y in list(op.results)[1:]]]
    count = 0
    if vectors:
        count = (max if _is_full(op, turned, of_v) else min)(shape(a)[-2:])
    values, failed, *both = implementation(b, "svd")(b, batched(b, a), count)
    made = [a, restored(b, values, s.type)]
    if not vectors:
        return [*made, b.zero(third.type), b.zero(fourth.type), restored(b, failed, info.type)]
    u, vh = both
    first, second = u, adjoint(b, vh) if of_v else vh
    if turned:
        first, second = second, first
    return restored_all(b, op, (*made, first, second, failed))


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
