"""Laplacians equal the traces of Hessians.

Sums over basis vectors are moved through linear ops and control flow, so that fewer values have a batch dimension.
"""

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness.check_rule import run
from harness.compare import compare
from harness.exports import exported
from numpy.typing import NDArray

from tiduc.loading import load

RNG = np.random.default_rng(0)
WEIGHTS = RNG.standard_normal((3, 5, 5)) / 2


def scanned(x: Any) -> Any:
    def step(h: Any, w: Any) -> Any:
        return jnp.tanh(w @ h) + 0.1 * h, jnp.sum(h * h)

    h, squares = jax.lax.scan(step, x, WEIGHTS)
    return jnp.sum(h) * jnp.sum(squares), h


def reverse_scanned(x: Any) -> Any:
    def step(h: Any, w: Any) -> Any:
        y, z = h
        return (jnp.sin(w @ y), z + y[0] * y), ()

    (_, z), _ = jax.lax.scan(step, (x, jnp.zeros(5)), WEIGHTS, reverse=True)
    return z


def called(x: Any) -> Any:
    @jax.jit
    def layer(w: Any, h: Any) -> Any:
        return jax.nn.silu(w @ h)

    for w in WEIGHTS:
        x = layer(w, x)
    return x


def branching(x: Any) -> Any:
    h = WEIGHTS[0] @ x
    h = jax.lax.cond(x[0] > 0, lambda h: jnp.sin(WEIGHTS[1] @ h), lambda h: jnp.cos(h) * x[1], h)
    return jnp.sum(WEIGHTS[2] @ h)


def looping(x: Any) -> Any:
    """A loop whose trip count depends on the data."""
    return jax.lax.while_loop(
        lambda h: jnp.sum(h * h) > 0.05, lambda h: 0.7 * jnp.sin(WEIGHTS[0] @ jnp.tanh(h)), x
    )


def unrelated(x: Any) -> Any:
    """Four outputs: a product with x, a constant, the sum of the squares of x, and x."""
    return WEIGHTS[0] @ x, jnp.float64(3.0), jnp.sum(x * x), x


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    function.__name__: function
    for function in (scanned, reverse_scanned, called, branching, looping, unrelated)
}


def traces(function: Callable[[Any], Any], x: NDArray[Any]) -> list[NDArray[Any]]:
    with jax.enable_x64(True):
        leaves = jax.tree.leaves(jax.jit(jax.jacfwd(jax.jacfwd(function)))(x))
        return [np.trace(np.asarray(h), axis1=-2, axis2=-1) for h in leaves]


@pytest.mark.parametrize("name", PROGRAMS)
def test_laplacian(name: str) -> None:
    x = RNG.standard_normal(5)
    program = load(exported(PROGRAMS[name], x))
    compare(run(program.laplacian(), [x]), traces(PROGRAMS[name], x), 1e-11)


def test_laplacian_of_a_laplacian() -> None:
    """The Laplacian of the Laplacian of sin(a x) equals |a|^4 sin(a x)."""
    a, x = RNG.standard_normal(4), RNG.standard_normal(4)
    program = load(exported(lambda x: jnp.sin(a @ x), x))
    compare(run(program.laplacian().laplacian(), [x]), [np.dot(a, a) ** 2 * np.sin(a @ x)], 1e-11)


def test_gradient_of_a_laplacian() -> None:
    x = RNG.standard_normal(5)
    program = load(exported(lambda x: scanned(x)[0], x))
    with jax.enable_x64(True):
        expected = jax.jit(jax.grad(lambda x: jnp.trace(jax.hessian(lambda x: scanned(x)[0])(x))))(x)
    compare(run(program.laplacian().grad(), [x]), [np.asarray(expected)], 1e-10)


@pytest.mark.parametrize("name", ["scanned", "called"])
def test_second_tangents_are_propagated_as_their_sum(name: str) -> None:
    """Each layer multiplies all first tangents by its weights, but multiplies only the sum of the second tangents.

    The first of three layers needs no product, because its tangents are the identity matrix. A loop computes the
    product of the first tangents twice, because both linearizations carry these tangents.
    """
    x = RNG.standard_normal(5)
    text = load(exported(lambda x: jax.tree.leaves(PROGRAMS[name](x))[-1], x), inline=True).laplacian().text
    products = re.findall(r"dot_general.* -> (tensor<.*>)", text)
    batched = [type_ for type_ in products if type_ != "tensor<5xf64>"]
    assert batched == ["tensor<5x5xf64>"] * 2


def test_rows_that_are_independent_share_basis_vectors() -> None:
    rows = RNG.standard_normal((20, 5))

    def network(x: Any) -> Any:
        return jnp.sum(jnp.tanh(jnp.tanh(x @ WEIGHTS[0]) @ WEIGHTS[1]), axis=-1)

    laplacian = load(exported(network, rows)).laplacian()
    expected = [traces(network, row)[0] for row in rows]
    compare(run(laplacian, [rows]), [np.array(expected)], 1e-11)
    assert "tensor<100x" not in laplacian.text


def test_products_with_the_identity_matrix_are_transposed() -> None:
    """The Jacobian of x W or W x with respect to x is W. The program that computes it has no matrix product."""
    x, w = RNG.standard_normal(4), RNG.standard_normal((4, 2, 3))

    def left(x: Any, w: Any) -> Any:
        return jnp.tensordot(x, w, [[0], [0]])

    def right(x: Any, w: Any) -> Any:
        return jnp.tensordot(jnp.transpose(w, (1, 0, 2)), x, [[1], [0]])

    def of_rows(x: Any, w: Any) -> Any:
        return jnp.broadcast_to(x, (7, 4)) @ w[:, 0]

    for function in (left, right, of_rows):
        jacobian = load(exported(function, x, w)).jacobian(0, "forward")
        with jax.enable_x64(True):
            compare(run(jacobian, [x, w]), [np.asarray(jax.jacfwd(function)(x, w))], 1e-14)
        assert "stablehlo.dot_general" not in jacobian.text


def test_factors_that_basis_vectors_share_are_multiplied_once() -> None:
    """For each of three layers, the Laplacian squares the matrix of tangents once.

    Between layers, it multiplies the tangents once, by the first derivative.
    """
    x = RNG.standard_normal(5)
    text = load(exported(called, x), inline=True).laplacian().text
    matrices = re.findall(r"stablehlo\.(\w+) (%\w+), (%\w+) : tensor<5x5xf64>", text)
    assert [(name, x == y) for name, x, y in matrices if x == y] == [("multiply", True)] * 3
    assert [name for name, x, y in matrices if x != y] == ["multiply"] * 2
    assert "negate" not in " ".join(line for line in text.splitlines() if "5x5" in line)


SQUARE_OF_F16 = """
func.func @main(%x: tensor<2xf16>) -> tensor<2xf16> {
  %large = stablehlo.constant dense<300.0> : tensor<2xf16>
  %small = stablehlo.constant dense<1.0e-3> : tensor<2xf16>
  %0 = stablehlo.multiply %large, %x : tensor<2xf16>
  %1 = stablehlo.multiply %small, %0 : tensor<2xf16>
  %2 = stablehlo.multiply %1, %0 : tensor<2xf16>
  return %2 : tensor<2xf16>
}
"""


def test_products_of_f16_keep_their_order() -> None:
    """The Laplacian keeps the order of products in f16: 0.001 * 300 * 300 is finite, but 300 * 300 is infinite."""
    (found,) = run(load(SQUARE_OF_F16).laplacian(), [np.zeros(2, np.float16)])
    np.testing.assert_allclose(found, [180.0, 180.0], rtol=1e-2)
