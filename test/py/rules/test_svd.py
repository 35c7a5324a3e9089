"""Singular values and vectors, thin, full, or only values, by calls of LAPACK and cuSOLVER."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness.check_rule import check_rule, like, run
from harness.compare import compare
from harness.exports import check_platform, exported
from jax import lax
from jax.lax.linalg import SvdAlgorithm

from tiduc.dialect.errors import Unsupported
from tiduc.loading import load

RNG = np.random.default_rng(0)


def matrix(*sizes: int, kind: str = "f") -> Any:
    return like(np.zeros(sizes, {"f": np.float64, "c": np.complex128}[kind]), RNG)


def svd(**options: Any) -> Callable[..., Any]:
    return lambda x: lax.linalg.svd(x, **options)


THIN, FULL, VALUES = svd(full_matrices=False), svd(full_matrices=True), svd(compute_uv=False)


def without_signs(x: Any) -> Any:
    """The singular values, and products of components of singular vectors.

    Rounding of the matrix may flip the signs of a pair of vectors, but not these products.
    """
    u, s, vh = THIN(x)
    return s, u * u, vh * vh, u[..., :1, :] * vh[..., :1].swapaxes(-1, -2)


def adjoint(x: Any) -> Any:
    return jnp.conj(jnp.swapaxes(x, -1, -2))


def without_gauge(x: Any) -> Any:
    """The singular values, and functions of the singular vectors that depend neither on the phases of the vectors nor
    on the choice of the additional vectors.
    """
    u, s, vh = FULL(x)
    count = s.shape[-1]
    thin, more = (
        (u[..., :count] * s[..., None, :] ** 2) @ vh[..., :count, :],
        (u[..., count:], vh[..., count:, :]),
    )
    return s, thin, more[0] @ adjoint(more[0]), adjoint(more[1]) @ more[1], jnp.abs(u[..., :count])


@pytest.mark.parametrize(("sizes", "order"), [((3, 2), 2), ((2, 2, 3), 1), ((3, 3), 1), ((1, 1), 1)])
def test_thin(sizes: tuple[int, ...], order: int) -> None:
    x = matrix(*sizes)
    check_rule(exported(without_signs, x), x, order=order, jax_function=jax.jit(without_signs))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["f", "c"])
@pytest.mark.parametrize("sizes", [(3, 1), (2, 2, 3)])
def test_full(sizes: tuple[int, ...], kind: str) -> None:
    x = matrix(*sizes, kind=kind)
    check_rule(exported(without_gauge, x), x, order=1)


@pytest.mark.parametrize("sizes", [(3, 2), (2, 2, 3)])
def test_thin_complex_as_jax(sizes: tuple[int, ...]) -> None:
    x = matrix(*sizes, kind="c")
    check_rule(exported(THIN, x), x, order=1, differences=False, jax_function=jax.jit(THIN))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["f", "c"])
@pytest.mark.parametrize("sizes", [(4, 2), (2, 2, 3)])
def test_values_alone(sizes: tuple[int, ...], kind: str) -> None:
    x = matrix(*sizes, kind=kind)
    check_rule(exported(VALUES, x), x, order=1, jax_function=jax.jit(VALUES))


def test_vectors_that_values_need_are_thin() -> None:
    text = str(load(exported(VALUES, matrix(9, 2))).jvp())
    assert "mode = 83" in text and "tensor<9x2xf64>, tensor<2x2xf64>, tensor<i32>)" in text


@pytest.mark.parametrize("options", [{"full_matrices": False}, {"compute_uv": False}])
def test_gesvd(options: dict[str, bool]) -> None:
    x, function = matrix(3, 4), svd(**options, algorithm=SvdAlgorithm.QR)
    check_rule(exported(function, x), x, order=1, differences=False, jax_function=jax.jit(function))


@pytest.mark.parametrize(
    "function",
    [jnp.linalg.pinv, jnp.linalg.cond, *(lambda x, n=n: jnp.linalg.norm(x, n) for n in ("nuc", 2, -2))],
)
def test_of_jax(function: Any) -> None:
    x = matrix(4, 3)
    check_rule(exported(function, x), x, order=1, jax_function=jax.jit(function))


def test_rank_is_inactive() -> None:
    x = matrix(3, 2)
    rank = load(exported(lambda x: jnp.linalg.matrix_rank(x) * jnp.sum(x), x))
    np.testing.assert_array_equal(run(rank.grad(), [x])[0], np.full((3, 2), 2.0))


@pytest.mark.parametrize(
    ("sizes", "kind", "algorithm"),
    [((4, 3), "f", "QR"), ((3, 4), "c", "QR"), ((2, 2, 3), "c", "JACOBI"), ((4, 3), "f", "POLAR")],
)
def test_cusolver(sizes: tuple[int, ...], kind: str, algorithm: str) -> None:
    for options in ({"full_matrices": False}, {"compute_uv": False}):
        of_gpu = svd(**options, algorithm=SvdAlgorithm[algorithm])
        check_platform(of_gpu, matrix(*sizes, kind=kind), "cuda", svd(**options))


EQUAL = np.diag([3.0, 3.0, 1.0, 1.0])


@pytest.mark.parametrize("kind", ["f", "c"])
def test_values_that_are_equal(kind: str) -> None:
    """Derivatives of the unitary factor u v^H, and of the sum of the singular values, are right at equal singular
    values.

    The gradient of the sum is u v^H.
    """

    def unitary(x: Any) -> Any:
        u, _, vh = THIN(x)
        return u @ vh

    x = EQUAL.astype({"f": np.float64, "c": np.complex128}[kind])
    check_rule(exported(unitary, x), x, order=1)
    p = load(exported(lambda x: jnp.sum(VALUES(x)), x))
    compare([run(p.grad(), [x])[0]], [np.eye(4)], 1e-14, "gradient of the nuclear norm")


def test_values_that_are_zero() -> None:
    """At zero singular values, the tangents of the values and of v are finite.

    Only the columns of u for zero values have no finite tangent.
    """
    x = np.diag([2.0, 1.0, 0.0, 0.0])[:, :3]
    du, *others = run(load(exported(THIN, x)).jvp(), [x, matrix(4, 3)])[3:]
    np.testing.assert_array_equal(np.isfinite(du).all(0), [True, True, False])
    assert all(np.isfinite(y).all() for y in others)


def test_empty() -> None:
    x = matrix(0, 3, 2)
    check_rule(exported(THIN, x), x, order=1)


def test_vectors_in_place_are_refused() -> None:
    text = exported(THIN, matrix(3, 3)).replace("mode = 83", "mode = 79")
    with pytest.raises(Unsupported, match="that overwrite the matrix"):
        load(text).jvp()
