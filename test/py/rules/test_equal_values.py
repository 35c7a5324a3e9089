"""Functions of a matrix with equal eigenvalues or singular values, computed from its eigenvectors or singular vectors.

Each function is smooth at these matrices, although the vectors are not. The JVP is compared with finite differences,
and the VJP with the JVP. Second derivatives must be right, or infinite or NaN.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness.check_rule import inner, like, run
from harness.exports import exported

from tiduc.loading import load

Function = Callable[[Any], Any]


def adjoint(x: Any) -> Any:
    return x.conj().swapaxes(-1, -2)


def of_eigenvalues(phi: Function) -> Function:
    """A function that computes v phi(w) v^H from the eigenvalues w and the eigenvectors v, in the form that most
    programs use.
    """

    def function(x: Any) -> Any:
        w, v = jnp.linalg.eigh(x)
        return (v * phi(w)[..., None, :]) @ adjoint(v)

    return function


def of_singular_values(phi: Function) -> Function:
    def function(x: Any) -> Any:
        u, s, vh = jnp.linalg.svd(x, full_matrices=False)
        return (u * phi(s)[..., None, :]) @ vh

    return function


def by_diagonal_matrix(x: Any) -> Any:
    w, v = jnp.linalg.eigh(x)
    return v @ jnp.diag(jnp.sqrt(w)).astype(v.dtype) @ adjoint(v)


def solution(x: Any) -> Any:
    w, v = jnp.linalg.eigh(x)
    return v @ ((1 / (w + 0.5)) * (adjoint(v) @ jnp.arange(1.0, x.shape[-1] + 1)))


def truncated(x: Any) -> Any:
    w, v = jnp.linalg.eigh(x)
    return (v[:, :2] * jnp.exp(w[:2])) @ adjoint(v[:, :2])


def projector(x: Any) -> Any:
    v = jnp.linalg.eigh(x)[1][:, :2]
    return v @ adjoint(v)


def hermitian_factor(x: Any) -> Any:
    _, s, vh = jnp.linalg.svd(x, full_matrices=False)
    return (adjoint(vh) * s) @ vh


def filtered(s: Any) -> Any:
    large = s > 1e-10 * s[..., :1]
    return jnp.where(large, 1 / jnp.where(large, s, 1), 0)


EIGH: dict[str, Function] = {
    "sqrt": of_eigenvalues(jnp.sqrt),
    "exp": of_eigenvalues(jnp.exp),
    "the matrix": of_eigenvalues(lambda w: w),
    "occupations": of_eigenvalues(lambda w: jax.nn.sigmoid(3 * (2 - w))),
    "softmax": of_eigenvalues(jax.nn.softmax),
    "diagonal matrix": by_diagonal_matrix,
    "solution": solution,
    "projector": projector,
    "truncated": truncated,
}
SVD: dict[str, Function] = {
    "the matrix": of_singular_values(lambda s: s),
    "polar factor": of_singular_values(jnp.ones_like),
    "pinv": lambda x: adjoint(of_singular_values(filtered)(x)),
    "pinv of JAX": jnp.linalg.pinv,
    "Hermitian factor": hermitian_factor,
    "nuclear norm": lambda x: jnp.linalg.norm(x, "nuc"),
}


def unitary(n: int, kind: str) -> Any:
    return np.linalg.qr(like(np.zeros((n, n), kind), np.random.default_rng(n)))[0]


def point(kind: str, is_hermitian: bool, is_exact: bool) -> tuple[Any, Any]:
    """A matrix, and a tangent.

    The matrix has two pairs of eigenvalues or singular values that are equal, exactly or up to rounding.
    """
    rng, values = np.random.default_rng(0), np.array([1.0, 1, 2, 2])
    q, p = (
        (np.eye(4, dtype=kind), np.eye(5, 4, dtype=kind))
        if is_exact
        else (unitary(4, kind), unitary(5, kind)[:, :4])
    )
    x = (q * values) @ adjoint(q) if is_hermitian else (p * values) @ adjoint(q)
    dx = like(x, rng)
    return tuple((y + adjoint(y)) / 2 for y in (x, dx)) if is_hermitian else (x, dx)  # type: ignore[return-value]


def difference(function: Function, x: Any, dx: Any, step: float = 1e-5) -> Any:
    with jax.enable_x64(True):
        ends = [np.asarray(function(x + sign * step * dx)) for sign in (1, -1)]
    return (ends[0] - ends[1]) / (2 * step)


CASES = [*((name, f, True) for name, f in EIGH.items()), *((name, f, False) for name, f in SVD.items())]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("is_exact", [True, False])
@pytest.mark.parametrize("kind", ["f8", "c16"])
@pytest.mark.parametrize(("name", "function", "is_hermitian"), CASES)
def test_functions_of_matrices(
    name: str, function: Function, is_hermitian: bool, kind: str, is_exact: bool
) -> None:
    x, dx = point(kind, is_hermitian, is_exact)
    program = load(exported(function, x))
    y, dy = run(program.jvp(), [x, dx])
    expected = difference(function, x, dx)
    np.testing.assert_allclose(dy, expected, rtol=0, atol=1e-7 * np.max(np.abs(expected)))
    ct = like(y, np.random.default_rng(1))
    actual = inner(run(program.vjp(), [x, ct])[1:], [dx])
    assert abs(actual - inner([ct], [dy])) <= 1e-10 * np.sum(np.abs(ct * dy))
    twice = run(program.jvp().jvp([0]), [x, dx, dx])[-1]
    back = run(program.jvp().vjp([0]), [x, dx, 0 * ct, ct])[-1]
    if np.isfinite(twice).all():
        with jax.enable_x64(True):
            ends = [np.asarray(function(x + i * 1e-3 * dx)) for i in (1, 0, -1)]
        wanted = (ends[0] - 2 * ends[1] + ends[2]) / 1e-6
        np.testing.assert_allclose(
            twice, wanted, rtol=0, atol=1e-4 * max(np.max(np.abs(wanted)), np.max(np.abs(dy)))
        )
        assert abs(inner([back], [dx]) - inner([ct], [twice])) <= 1e-9 * np.sum(np.abs(ct * twice))
    else:
        assert not np.isfinite(inner([back], [dx]))


def test_derivative_of_a_gradient() -> None:
    """The gradient of the sum of w^3 over the eigenvalues is 3 a^2, and its JVP is right.

    This differentiates a transposed rule, which also sums products of vectors.
    """
    for kind in ("f8", "c16"):
        x, dx = point(kind, True, False)
        gradient = load(exported(lambda x: jnp.sum(jnp.linalg.eigvalsh(x) ** 3), x)).grad()
        y, dy = run(gradient.jvp(), [x, dx])
        np.testing.assert_allclose(y, 3 * x @ x, atol=1e-12)
        np.testing.assert_allclose(dy, 3 * (x @ dx + dx @ x), atol=1e-12)


def test_second_derivative_of_the_nuclear_norm() -> None:
    x, dx = point("c16", False, False)
    gradient = load(exported(lambda x: jnp.linalg.norm(x, "nuc"), x)).grad()
    _, dy = run(gradient.jvp(), [x, dx])
    expected = difference(of_singular_values(jnp.ones_like), x, dx)
    np.testing.assert_allclose(dy, expected, rtol=0, atol=1e-8)


@pytest.mark.more
def test_on_iree() -> None:
    """The JVP of a program with several such functions is right on the default engine, in f32."""

    def function(x: Any) -> Any:
        h = (x + x.T) / 2
        return EIGH["sqrt"](h), EIGH["projector"](h), SVD["pinv"](x), SVD["polar factor"](x)

    x, dx = (np.asarray(y, np.float32) for y in point("f8", True, False))
    program = load(exported(function, x)).jvp()
    results = program.compile()(x, dx)
    expected = difference(function, x.astype("f8"), dx.astype("f8"))
    for dy, wanted in zip(results[len(results) // 2 :], expected, strict=True):
        np.testing.assert_allclose(dy, wanted, rtol=0, atol=1e-4)


# ---- functions without a derivative ------------------------------------------------------------------------


def test_vectors_have_no_derivative_where_values_are_equal() -> None:
    """The derivatives of eigenvectors are NaN or infinite exactly for those with equal eigenvalues."""
    x, dx = np.diag([1.0, 2, 2, 3]), like(np.eye(4), np.random.default_rng(0))
    program = load(exported(lambda x: jnp.linalg.eigh(x)[1], x))
    dv, ct = run(program.jvp(), [x, dx])[1], np.zeros((4, 4))
    np.testing.assert_array_equal(np.isfinite(dv).all(0), [True, False, False, True])
    for column, is_finite in ((0, True), (1, False)):
        ct[:] = 0
        ct[0, column] = 1
        assert np.isfinite(run(program.vjp(), [x, ct])[1]).all() == is_finite


def test_a_part_of_the_vectors_of_equal_values_has_no_derivative() -> None:
    x, dx = np.diag([1.0, 2, 2, 3]), like(np.eye(4), np.random.default_rng(0))
    program = load(exported(projector, x))
    assert not np.isfinite(run(program.jvp(), [x, dx])[1]).any()
    assert not np.isfinite(run(program.vjp(), [x, dx])[1]).all()


@pytest.mark.parametrize("weights", [np.arange(4.0), np.array([1.0, 1, 0, 0])])
def test_weights_that_may_tell_equal_values_apart(weights: Any) -> None:
    x, dx = point("f8", True, False)
    program = load(exported(lambda x: of_eigenvalues(lambda w: weights)(x), x))
    assert not np.isfinite(run(program.jvp(), [x, dx])[1]).any()


def test_taylor_mode() -> None:
    """Taylor mode gives NaN or infinite derivatives at equal eigenvalues, also for smooth functions.

    It differentiates only the factorization, independently of how its vectors are used.
    """
    program = load(exported(lambda t: EIGH["sqrt"](jnp.eye(3) + t * jnp.ones((3, 3)))[0, 1], np.float64(0)))
    assert not np.isfinite(run(program.derivatives(order=1), [np.float64(0)])[1])


def test_singular_values_of_zero() -> None:
    """At a matrix with zero singular values, the JVP of the pseudo-inverse is right along a tangent that preserves the
    rank.

    The matrix from its factors and the polar factors have no finite derivatives.
    """
    x = np.diag([2.0, 1, 0, 0])[:, :3]
    dx = like(x, np.random.default_rng(0))
    dx[2:, 2:] = 0  # this tangent preserves the rank to first order
    _, dy = run(load(exported(SVD["pinv"], x)).jvp(), [x, dx])
    y = np.linalg.pinv(x)
    left, right = np.eye(4) - x @ y, np.eye(3) - y @ x
    expected = -y @ dx @ y + y @ y.T @ dx.T @ left + right @ dx.T @ y.T @ y
    np.testing.assert_allclose(dy, expected, atol=1e-12)
    for name in ("the matrix", "polar factor", "Hermitian factor"):
        assert not np.isfinite(run(load(exported(SVD[name], x)).jvp(), [x, dx])[1]).all()
