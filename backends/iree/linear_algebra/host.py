"""Factorizations by LAPACK on the host (backends/iree/lapack.py), for batches of matrices."""

from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter
from tiduc.backends.iree.lapack import info_type, on_host
from tiduc.backends.iree.linear_algebra.matrices import adjoint, diagonal, failed_at, real_type
from tiduc.dialect.types import shape, with_element, with_shape
from tiduc.passes.rules.triangular_solve import compare_places


def cholesky(b: Emitter, x: Any, lower: bool, kept: bool) -> list[Any]:
    """The factor, with the other triangle zero or, if `kept`, as it was; and the first column without a root."""
    given = x if lower else adjoint(b, x)
    (factor,) = on_host(b, "cholesky", [given], [given.type])
    root = b.real(diagonal(b, factor))
    info = failed_at(b, b.not_(b.compare(root, b.zeros_like(root), "GT")))
    factor = factor if lower else adjoint(b, factor)
    return [b.select(compare_places(b, x, "GE" if lower else "LE"), factor, x) if kept else factor, info]


def qr(b: Emitter, x: Any) -> tuple[Any, ...]:
    """The packed factors, and tau."""
    batch, m, n = shape(x)
    return on_host(b, "qr", [x], [x.type, with_shape(x.type, [batch, min(m, n)])])


def multiply_by_q(b: Emitter, qr: Any, taus: Any, c: Any, adjoint: bool) -> Any:
    """Q c, or Q^H c."""
    return on_host(b, "apply_qh" if adjoint else "apply_q", [qr, taus, c], [c.type])[0]


def eigh(b: Emitter, x: Any, vectors: bool) -> tuple[Any, ...]:
    """Vectors, or None; values; and `info`."""
    types = [_values(x, shape(x)[1]), info_type(x)]
    if vectors:
        return on_host(b, "eigh", [x], [x.type, *types])
    return None, *on_host(b, "eigvalsh", [x], types)


def svd(b: Emitter, x: Any, vectors: int) -> tuple[Any, ...]:
    """Values, `info`, and, with `vectors` of the longer vectors, u and v^H."""
    batch, m, n = shape(x)
    values = _values(x, min(m, n))
    if not vectors:
        return on_host(b, "svdvals", [x], [values, info_type(x)])
    of_u, of_v = (with_shape(x.type, [batch, size, min(size, vectors)]) for size in (m, n))
    name = "svd_full" if vectors > min(m, n) else "svd"
    u, s, v, failed = on_host(b, name, [x], [of_u, values, of_v, info_type(x)])
    return s, failed, u, adjoint(b, v)


def eig(b: Emitter, x: Any, left: bool, right: bool) -> tuple[Any, Any, Any, Any]:
    """Values, None for the left vectors, the right vectors or None, and `info`."""
    assert not left, "NumPy computes no left vectors"
    of_v = with_element(x.type, ir.ComplexType.get(real_type(x)))
    types = [with_shape(of_v, shape(x)[:2]), *([of_v] if right else []), info_type(x)]
    w, *v, failed = on_host(b, "eig" if right else "eigvals", [x], types)
    return w, None, v[0] if right else None, failed


def _values(x: Any, count: int) -> Any:
    """The type of `count` real values of each matrix."""
    return with_element(with_shape(x.type, [shape(x)[0], count]), real_type(x))
