"""Eigenvalues and eigenvectors of Hermitian matrices, for the calls of LAPACK, cuSOLVER and TPUs.

a = v diag(w) v^H, with w in ascending order. On CPUs, one dispatch reduces a to tridiagonal form and applies
the QR algorithm. On other targets, Jacobi's method makes a diagonal by rotations from both sides, whose
product is v^H.
"""

from collections.abc import Sequence
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.calls import legalize_call
from tiduc.backends.iree.emitter import Emitter
from tiduc.backends.iree.lapack import info_type, on_host
from tiduc.backends.iree.linear_algebra.jacobi import Pairs, Rotation, sweeps
from tiduc.backends.iree.linear_algebra.matrices import (
    adjoint,
    batched,
    checked,
    diagonal,
    epsilon,
    everywhere,
    in_order,
    is_lower,
    largest,
    on_diagonal,
    quotient,
    real_type,
    restored,
    scale,
    settings,
    sizes,
    sorted_by,
    spread,
    squares,
    unsettled,
)
from tiduc.backends.iree.linear_algebra.tridiagonal import tridiagonalized
from tiduc.backends.iree.refused import refused
from tiduc.dialect.lapack import targets
from tiduc.dialect.types import is_empty, shape, with_element, with_shape
from tiduc.passes.rules.eigh import hermitian


@legalize_call(*targets("syevd"))
def syevd(b: Emitter, op: Any) -> Sequence[Any]:
    """Vectors, values, and `info`: 1 if the sweeps do not converge or the matrix is not finite."""
    given = settings(op)
    return _decomposed(b, op, is_lower(op), "mode" not in given or given["mode"] == ord("V"))


@legalize_call("Eigh")
def eigh(b: Emitter, op: Any) -> Sequence[Any]:
    """`syevd` for TPUs, whose settings are text."""
    text = op.attributes.get("backend_config")
    if not isinstance(text, ir.StringAttr):
        raise refused(op, "its settings are no text")
    return _decomposed(b, op, text.value.startswith("1"), True)


def _decomposed(b: Emitter, op: Any, lower: bool, vectors: bool) -> list[Any]:
    (a,) = checked(op).operands
    if is_empty(a):
        return [b.zero(y.type) for y in op.results]
    if shape(op.results[0]) != shape(a):
        raise refused(op, "only some of the eigenvalues are wanted")
    x = hermitian(b, batched(b, a), lower)
    v, w, failed = _of_lapack(b, x, vectors) if b.lapack else _of(b, x, vectors)
    results = [restored(b, v, a.type) if vectors else a, restored(b, w, op.results[1].type)]
    return results + [restored(b, failed, y.type) for y in list(op.results)[2:]]


def _of_lapack(b: Emitter, x: Any, vectors: bool) -> tuple[Any, Any, Any]:
    """The results of `_of` by LAPACK on the host; without `vectors`, the first result is of no use."""
    types = [with_element(with_shape(x.type, shape(x)[:2]), real_type(x)), info_type(x)]
    if vectors:
        v, w, failed = on_host(b, "eigh", [x], [x.type, *types])
        return v, w, failed
    return x, *on_host(b, "eigvalsh", [x], types)


def _of(b: Emitter, x: Any, vectors: bool) -> tuple[Any, Any, Any]:
    """Vectors, values and `info` of Hermitian matrices, which are scaled to entries of about one."""
    unit = scale(b, largest(b, sizes(b, x), [1, 2]))
    x = quotient(b, x, everywhere(b, unit, x))
    total = b.reduce_sum(squares(b, x), [1, 2])
    if b.cpu:
        v, w, last = tridiagonalized(b, x, vectors)
        return v, b.multiply(w, spread(b, unit, [0], w)), unsettled(b, last, 0, total)
    most = epsilon(x) ** 2
    w, vh, last = _by_rounds(b, x, total, most)
    w = b.multiply(w, spread(b, unit, [0], w))
    order = in_order(b, w)
    return adjoint(b, sorted_by(b, order, vh)), sorted_by(b, order, w), unsettled(b, last, most, total)


def _by_rounds(b: Emitter, x: Any, total: Any, most: float) -> tuple[Any, Any, Any]:
    """The diagonal, v^H, and the sum of squares off the diagonal, relative to `total`.

    Each round rotates half of the rows with the other half.
    """
    over = b.select(b.compare(total, b.zeros_like(total), "EQ"), b.constant(1, total), total)
    own = on_diagonal(b, x)
    w = b.real(diagonal(b, x))
    vh = b.select(own, b.constant(1, x), b.zeros_like(x))

    def measure(b: Emitter, carries: Sequence[Any]) -> Any:
        return b.divide(b.reduce_sum(squares(b, carries[1]), [1, 2]), over)

    beside = b.select(own, b.zeros_like(x), x)
    w, _, vh, last = sweeps(b, shape(x)[1], most, [w, beside, vh], measure, _turned)
    return w, vh, last


def _turned(b: Emitter, pairs: Pairs, carries: Sequence[Any]) -> Sequence[Any]:
    """One round, of the diagonal, of the off-diagonal matrix (rows and columns), and of the vectors."""
    w, x, vh = carries
    rotation = Rotation(b, pairs, w, pairs.agreed(b, pairs.entries_of(b, x)))
    turned = rotation.of_columns(b, rotation.of(b, x))
    turned = b.select(pairs.met(b, x), b.zeros_like(x), turned)
    return [b.add(w, rotation.change), turned, rotation.of(b, vh)]
