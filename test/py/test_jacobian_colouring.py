"""Tests sparse Jacobians and Hessians: colouring reduces the number of seeds, and values equal the dense ones."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness.check_rule import run
from harness.exports import exported
from harness.xla import by_xla
from numpy.typing import NDArray

from tiduc.dialect.errors import RequestError
from tiduc.loading import load
from tiduc.passes.batching.colouring import column_colours, is_alone, star_colours
from tiduc.program import Program

RNG = np.random.default_rng(0)
Array = NDArray[Any]
INDICES = RNG.integers(0, 9, (3, 7))


def tridiagonal(x: Any) -> Any:
    padded = jnp.pad(x, 1)
    return jnp.sin(x) * (padded[2:] - 2 * x + padded[:-2])


def seeds(text: str) -> int:
    """The number of seeds in a program, which is the largest leading size of an iota. Returns 1 without iotas."""
    shapes = [line.split("tensor<")[-1] for line in text.splitlines() if "stablehlo.iota" in line]
    return max([int(shape.split("x")[0]) for shape in shapes], default=1)


def agrees(program: Program, arguments: list[Any], sparse: Program, rtol: float = 1e-12) -> None:
    for y, wanted in zip(run(sparse, arguments), run(program, arguments), strict=True):
        np.testing.assert_allclose(y, wanted, rtol=rtol, atol=1e-12)


def test_a_thousand_by_a_thousand() -> None:
    """A tridiagonal Jacobian of size 1,000 needs three seeds, and its values equal JAX's."""
    x = RNG.standard_normal(1000)
    with jax.enable_x64(True):
        expected = jax.jit(jax.jacfwd(tridiagonal))(jnp.asarray(x))
    program = load(exported(tridiagonal, x))
    for mode in ("forward", "reverse", "auto"):
        text = program.jacobian(mode=mode, sparsity="auto").text
        assert "tensor<3x1000xf64>" in text and text.count("tensor<1000x1000x") == 3  # only in the result
        np.testing.assert_allclose(by_xla(text, [x])[0], expected, rtol=1e-13, atol=1e-15)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[int, ...], int]] = {
    "strides and flips": (lambda x: jnp.flip(x)[::2] * jnp.sin(x[1:6:1]), (9,), 2),
    "a convolution": (lambda x: jnp.convolve(x, jnp.array([1.0, 2, 3]), "same") ** 2, (12,), 3),
    "two dimensions": (lambda x: x[1:, :] * x[:-1, :] + jnp.roll(x, 1, 1)[1:], (7, 8), 4),
    "windows": (lambda x: jax.lax.reduce_window(x, 0.0, jax.lax.add, (2,), (2,), "VALID") ** 2, (12,), 2),
    "gathered rows": (lambda x: jnp.sum(x[INDICES[0]] * x[INDICES[1]], 1), (9, 2), 18),
    "scattered": (lambda x: jnp.zeros((9, 2)).at[INDICES[2]].add(x**2), (7, 2), 14),
    "a slice at a place": (lambda x: jax.lax.dynamic_slice(x, (3,), (4,)) * x[:4], (12,), 2),
    "an update": (lambda x: jax.lax.dynamic_update_slice(x, x[:3] ** 2, (4,)) * x, (12,), 12),
    "interior padding": (lambda x: jax.lax.pad(x, 0.0, [(1, -1, 2)]) * 2, (5,), 1),
    "functions": (lambda x: jnp.cross(x, x[::-1] ** 2), (12, 3), 36),
    "parts": (lambda x: jnp.concatenate([x[2:], x[:2]]) * jnp.broadcast_to(x[:1], (12,)), (12,), 12),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_patterns(name: str) -> None:
    """The sparse Jacobian equals the dense one in each mode, and forward mode needs at most `most` seeds."""
    function, sizes, most = PROGRAMS[name]
    program = load(exported(function, np.zeros(sizes)))
    x = RNG.standard_normal(sizes)
    for mode in ("forward", "reverse"):
        agrees(program.jacobian(), [x], program.jacobian(mode=mode, sparsity="auto"))
    assert seeds(program.jacobian(mode="forward", sparsity="auto").text) <= most


def test_several_inputs_and_outputs() -> None:
    def function(x: Any, w: Any) -> Any:
        return x[1:] * x[:-1], w[::2] * x[:5], jnp.float64(3) * jnp.ones(2)

    x, w = RNG.standard_normal(8), RNG.standard_normal(10)
    program = load(exported(function, x, w))
    for mode in ("forward", "reverse", "auto"):
        agrees(program.jacobian(), [x, w], program.jacobian(mode=mode, sparsity="auto"))


# ---- Hessians ----------------------------------------------------------------------------------------------


def arrow(x: Any) -> Any:
    """A function whose Hessian has a full first row and first column, and a diagonal.

    No two columns can share a seed, but a star colouring of the symmetric matrix needs two colours.
    """
    return jnp.sum(jnp.sin(x[1:] * x[0])) + x[0] ** 3


def test_star_colouring_of_a_hessian() -> None:
    x = RNG.standard_normal(30)
    program = load(exported(arrow, x))
    sparse = program.hessian(sparsity="auto")
    assert "tensor<2x30xf64>" in sparse.text
    agrees(program.hessian(), [x], sparse)


def test_a_hessian_of_a_custom_derivative_need_not_be_symmetric() -> None:
    """The Hessian is right if the custom gradient of f has a Jacobian that is not symmetric.

    Each component of the gradient is x0. A star colouring would be wrong, because it assumes symmetry.
    """
    text = """func.func private @f(%x: tensor<4xf64>) -> tensor<f64> attributes {tidu.vjp = @g} {
      %z = stablehlo.constant dense<0.0> : tensor<f64>
      %0 = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [0]
        : (tensor<4xf64>, tensor<f64>) -> tensor<f64>
      return %0 : tensor<f64>
    }
    func.func private @g(%x: tensor<4xf64>, %ct: tensor<f64>) -> tensor<4xf64> {
      %0 = stablehlo.slice %x [0:1] : (tensor<4xf64>) -> tensor<1xf64>
      %1 = stablehlo.reshape %0 : (tensor<1xf64>) -> tensor<f64>
      %2 = stablehlo.multiply %1, %ct : tensor<f64>
      %3 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<f64>) -> tensor<4xf64>
      return %3 : tensor<4xf64>
    }
    func.func @main(%x: tensor<4xf64>) -> tensor<f64> {
      %0 = call @f(%x) : (tensor<4xf64>) -> tensor<f64>
      return %0 : tensor<f64>
    }"""
    program, x = load(text), RNG.standard_normal(4)
    agrees(program.hessian(), [x], program.hessian(sparsity="auto"))
    np.testing.assert_allclose(run(program.hessian(sparsity="auto"), [x])[0][:, 0], np.ones(4))


# ---- patterns that are given -------------------------------------------------------------------------------


def test_given_patterns() -> None:
    """The caller can give the pattern of a Jacobian; a wrong shape or name is refused.

    Here tiduc cannot find the pattern itself, because it does not analyze which elements a loop reads.
    """

    def function(x: Any) -> Any:
        return jax.lax.fori_loop(0, 3, lambda _, y: jnp.sin(y) * x, x)

    x = RNG.standard_normal(6)
    program = load(exported(function, x))
    sparse = program.jacobian(sparsity=np.eye(6))
    assert "tensor<6x6xi32>" not in sparse.text
    agrees(program.jacobian(), [x], sparse)
    by_name = program.jacobian(sparsity={"result0.jacobian.arg0": np.eye(6, dtype=bool)})
    agrees(program.jacobian(), [x], by_name)
    with pytest.raises(RequestError, match=r"has the shape \(6, 5\), not \(6, 6\)"):
        program.jacobian(sparsity=np.ones((6, 5)))
    with pytest.raises(RequestError, match="pattern 'x' is none of result0.jacobian.arg0"):
        program.jacobian(sparsity={"x": np.eye(6)})
    two = load(exported(lambda x, w: x * w, x, x))
    with pytest.raises(RequestError, match="one pattern is given for several derivatives"):
        two.jacobian(sparsity=np.eye(6))


# ---- colourings --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_colourings_are_valid(seed: int) -> None:
    """In a column colouring, each entry is the only one of its colour in its row.

    In a star colouring, this holds for each entry or for its mirror image.
    """
    rng = np.random.default_rng(seed)
    for n in (1, 5, 12, 30):
        dense = rng.random((n, n)) < 2 / n
        entries = np.nonzero(dense)
        assert is_alone(entries, column_colours(entries, n)).all()
        both = dense | dense.T | np.eye(n, dtype=bool)
        entries = np.nonzero(both)
        colours = star_colours(entries, n)
        alone = np.zeros((n, n), bool)
        alone[entries] = is_alone(entries, colours)
        assert (alone | alone.T)[entries].all()
        assert colours.max() <= column_colours(entries, n).max() + 2


def test_inputs_too_large_for_a_pattern() -> None:
    """For an input of 2^32 elements, the whole Jacobian is refused, but the diagonal is computed."""
    program = load(
        b"func.func @main(%x: tensor<4294967296xf32>) -> tensor<4294967296xf32> { return %x : tensor<4294967296xf32> }"
    )
    with pytest.raises(RequestError, match="would have 18446744073709551616 elements"):
        program.jacobian(sparsity="auto")
    assert "tensor<4294967296xf32>" in program.jacobian(sparsity="diagonal").text
