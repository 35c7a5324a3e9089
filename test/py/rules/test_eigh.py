"""Eigenvalues and eigenvectors of Hermitian matrices, by calls of LAPACK, cuSOLVER and TPUs."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness.check_rule import check_rule, like, run
from harness.compare import compare
from harness.exports import check_platform, exported
from jax import lax

from tiduc.dialect.errors import Unsupported
from tiduc.loading import load

RNG = np.random.default_rng(0)


def matrix(*sizes: int, kind: str = "f") -> Any:
    return like(np.zeros(sizes, {"f": np.float64, "c": np.complex128}[kind]), RNG)


def of_triangle(lower: bool) -> Any:
    return lambda x: lax.linalg.eigh(x, lower=lower, symmetrize_input=False)


def without_signs(lower: bool) -> Any:
    """A function that returns the squares of the eigenvectors' components, and the eigenvalues.

    Rounding of the matrix may flip the sign of an eigenvector, but not its squares.
    """

    def function(x: Any) -> Any:
        v, w = of_triangle(lower)(x)
        return v * v, w

    return function


def without_gauge(x: Any) -> Any:
    """The eigenvalues, and functions of the eigenvectors that do not depend on the eigenvectors' phases."""
    v, w = lax.linalg.eigh(x, symmetrize_input=False)
    return w, (v * jnp.sin(w)[..., None, :]) @ jnp.conj(jnp.swapaxes(v, -1, -2)), jnp.abs(v) ** 2


@pytest.mark.parametrize(
    ("sizes", "order", "lower"),
    [((3, 3), 2, True), ((3, 3), 1, False), ((2, 1, 4, 4), 1, False), ((1, 1), 1, True), ((0, 0), 1, True)],
)
def test_real(sizes: tuple[int, ...], order: int, lower: bool) -> None:
    x = matrix(*sizes)
    check_rule(exported(without_signs(lower), x), x, order=order)


def test_complex() -> None:
    x = matrix(2, 2, kind="c")
    check_rule(exported(without_gauge, x), x)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["f", "c"])
@pytest.mark.parametrize("sizes", [(4, 4), (2, 3, 3)])
def test_as_jax(sizes: tuple[int, ...], kind: str) -> None:
    x = matrix(*sizes, kind=kind)
    check_rule(
        exported(jnp.linalg.eigh, x), x, order=1, differences=False, jax_function=jax.jit(jnp.linalg.eigh)
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["f", "c"])
@pytest.mark.parametrize("lower", [False, True])
def test_only_one_triangle_is_read(lower: bool, kind: str) -> None:
    """Neither the triangle that the op does not read nor the imaginary part of the diagonal affects the value or the
    derivative.
    """
    x, dx, other = (matrix(3, 3, kind=kind) for _ in range(3))
    other = (np.triu if lower else np.tril)(other, 1 if lower else -1)
    other = other + 1j * np.eye(3) if kind == "c" else other
    p = load(exported(of_triangle(lower), x)).jvp()
    for actual, expected in zip(run(p, [x, dx]), run(p, [x + other, dx - 7 * other]), strict=True):
        np.testing.assert_allclose(actual, expected, atol=1e-13)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("platform", ["cuda", "tpu"])
@pytest.mark.parametrize(("sizes", "kind"), [((4, 4), "f"), ((2, 3, 3), "c")])
def test_other_platforms(sizes: tuple[int, ...], kind: str, platform: str) -> None:
    check_platform(jnp.linalg.eigh, matrix(*sizes, kind=kind), platform)


def test_values_alone() -> None:
    """Derivatives of a call without eigenvectors, which JAX does not emit, equal JAX's.

    They add a call that computes eigenvectors.
    """
    x = matrix(3, 3)
    text = exported(lambda x: lax.linalg.eigh(x)[1], x)
    assert "mode = 86" in text
    check_rule(text.replace("mode = 86", "mode = 78"), x, order=1, jax_function=jax.jit(jnp.linalg.eigvalsh))


EQUAL = np.diag([1.0, 1.0, 3.0, 3.0, 3.0])


@pytest.mark.parametrize("turned", [False, True])
def test_values_that_are_equal(turned: bool) -> None:
    """The gradient of the sum of w^3 over the eigenvalues w of a is 3 a^2, even for equal eigenvalues."""
    q = np.linalg.qr(matrix(5, 5))[0] if turned else np.eye(5)
    x = q @ EQUAL @ q.T
    p = load(exported(lambda x: jnp.sum(jnp.linalg.eigvalsh(x) ** 3), x))
    compare([run(p.grad(), [x])[0]], [3 * x @ x], 1e-12, "gradient")


def test_projectors_where_values_are_equal() -> None:
    """The derivative of the projector onto the first two eigenvectors is right at equal eigenvalues, although the
    eigenvectors are not smooth.
    """

    def projector(x: Any) -> Any:
        v = jnp.linalg.eigh(x)[1][:, :2]
        return v @ v.T

    check_rule(exported(projector, EQUAL), EQUAL, order=1)


def test_a_part_of_the_values_is_refused() -> None:
    text = """
    func.func @main(%x: tensor<3x3xf64>) -> tensor<2xf64> {
      %0:2 = stablehlo.custom_call @Eigh(%x) {backend_config = "1,1,100,1e-6"}
        : (tensor<3x3xf64>) -> (tensor<3x2xf64>, tensor<2xf64>)
      return %0#1 : tensor<2xf64>
    }"""
    with pytest.raises(Unsupported, match="only some of the eigenvalues"):
        load(text).jvp()
