"""Factorizations by LAPACK on the host (backends/iree/lapack.py), for batches of matrices."""

from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter
from tiduc.backends.iree.lapack import info_type, on_host
from tiduc.backends.iree.linear_algebra.cholesky import first_without_root
from tiduc.backends.iree.linear_algebra.matrices import adjoint, real_rows, real_type
from tiduc.dialect.types import shape, with_element, with_shape
from tiduc.passes.rules.triangular_solve import compare_places


def cholesky(b: Emitter, x: Any, lower: bool, keep: bool) -> list[Any]:
    """The factor, with the other triangle zero or, if `keep`, as it was; and the first column without a root."""
    given = x if lower else adjoint(b, x)
    (factor,) = on_host(b, "cholesky", [given], [given.type])
    info = first_without_root(b, factor)
    factor = factor if lower else adjoint(b, factor)
    return [b.select(compare_places(b, x, "GE" if lower else "LE"), factor, x) if keep else factor, info]


def qr(b: Emitter, x: Any) -> tuple[Any, ...]:
    """The packed factors, and tau."""
    batch, m, n = shape(x)
    return on_host(b, "qr", [x], [x.type, with_shape(x.type, [batch, min(m, n)])])


def multiply_by_q(b: Emitter, qr: Any, taus: Any, c: Any, adjoint: bool) -> tuple[Any, ...]:
    """Q c, or Q^H c."""
    return on_host(b, "apply_qh" if adjoint else "apply_q", [qr, taus, c], [c.type])


def eigh(b: Emitter, x: Any, vectors: bool) -> tuple[Any, ...]:
    """Values, `info`, and vectors if asked for; NumPy reads the lower triangle."""
    types = [real_rows(x, shape(x)[1]), info_type(x)]
    if not vectors:
        return on_host(b, "eigvalsh", [x], types)
    v, w, info = on_host(b, "eigh", [x], [x.type, *types])
    return w, info, v


def svd(b: Emitter, x: Any, vectors: int) -> tuple[Any, ...]:
    """Values, `info`, and, with `vectors` of the longer vectors, u and v^H."""
    batch, m, n = shape(x)
    values = real_rows(x, min(m, n))
    if not vectors:
        return on_host(b, "svdvals", [x], [values, info_type(x)])
    of_u, of_v = (with_shape(x.type, [batch, size, min(size, vectors)]) for size in (m, n))
    name = "svd_full" if vectors > min(m, n) else "svd"
    u, s, v, info = on_host(b, name, [x], [of_u, values, of_v, info_type(x)])
    return s, info, u, adjoint(b, v)


def eig(b: Emitter, x: Any, left: bool, right: bool) -> tuple[Any, ...]:
    """Values, `info`, and the right vectors if asked for."""
    assert not left, "NumPy computes no left vectors"
    of_v = with_element(x.type, ir.ComplexType.get(real_type(x)))
    types = [with_shape(of_v, shape(x)[:2]), *([of_v] if right else []), info_type(x)]
    w, *v, info = on_host(b, "eig" if right else "eigvals", [x], types)
    return w, info, *v
