"""The extrema that softmax and logsumexp subtract: their tangents cancel, and derivatives leave them out."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness.exports import exported

from tiduc.passes.linearize import linearize
from tiduc.passes.rules import OPSET
from tiduc.passes.rules.reduce import SHIFT
from tiduc.program import load

RANDOM = np.random.default_rng(0)
X = RANDOM.integers(-2, 3, (3, 5)) + 0.5  # with ties of the largest elements
W, V = RANDOM.standard_normal((2, 3, 5))

Function = Callable[[Any], Any]


def normalized(x: Any, axis: int, shift: Any) -> Any:
    e = jnp.exp(x - shift)
    return e / e.sum(axis, keepdims=True)


def by_logarithms(x: Any) -> Any:
    m = x.max(0)
    return jnp.sum((jnp.log(jnp.sum(jnp.exp(x - m), 0)) + m) ** 2)


def returned(x: Any) -> Any:
    m = x.max(1, keepdims=True)
    return W * normalized(x, 1, m) + m


SHIFTS: dict[str, Function] = {
    "softmax": lambda x: W * jax.nn.softmax(x),
    "log_softmax": lambda x: W * jax.nn.log_softmax(x, 0),
    "logsumexp": lambda x: jax.scipy.special.logsumexp(x) ** 2,
    "logsumexp of rows": lambda x: jax.scipy.special.logsumexp(x, 1) ** 2,
    "by logarithms": by_logarithms,
    "softmin": lambda x: W * normalized(-x, 1, -x.min(1, keepdims=True)),
    "transposed": lambda x: W * normalized(x.T, 0, x.max(1)).T,
    "any function of the other axis": lambda x: W[:, :3] * normalized(x[:, :3], 0, x[:, :3].max(1)),
    "shift of the whole array": lambda x: W * normalized(x, 1, x.max()),
}

OTHERS: dict[str, Function] = {
    "returned": returned,
    "no quotient": lambda x: jnp.exp(x - x.max(0)),
    "another axis": lambda x: W * normalized(x, 1, x.max(0)),
    "a factor": lambda x: W * normalized(x, 1, 2 * x.max(1, keepdims=True) * x),
    "twice the shift": lambda x: jnp.log(jnp.sum(jnp.exp(x - x.max(1, keepdims=True)), 1)) + 2 * x.max(1),
}


def checked(function: Function) -> str:
    """Compares the gradient and the Hessian along V with JAX's; gives the text of the imported program."""

    def loss(x: Any) -> Any:
        return jnp.sum(jnp.sin(function(x)))

    program = load(exported(loss, X))
    with jax.enable_x64(True):
        gradient, along = jax.jvp(jax.grad(loss), (X,), (V,))
    assert_close(program.grad().compile(engine="reference")(X)[0], gradient)
    assert_close(program.hvp().compile(engine="reference")(X, V)[-1], along)
    return program.text


def assert_close(x: Any, y: Any) -> None:
    np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", SHIFTS)
def test_shifts_have_no_tangent(name: str) -> None:
    assert SHIFT in checked(SHIFTS[name])


@pytest.mark.parametrize("name", OTHERS)
def test_other_extrema_keep_their_tangents(name: str) -> None:
    assert SHIFT not in checked(OTHERS[name])


SOFTMAX = """
func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {
  %low = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>
  %zero = stablehlo.constant dense<0.0> : tensor<f64>
  %m = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [0]
      : (tensor<3xf64>, tensor<f64>) -> tensor<f64>
  %ms = stablehlo.broadcast_in_dim %m, dims = [] : (tensor<f64>) -> tensor<3xf64>
  %d = stablehlo.subtract %x, %ms : tensor<3xf64>
  %e = stablehlo.exponential %d : tensor<3xf64>
  %s = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [0]
      : (tensor<3xf64>, tensor<f64>) -> tensor<f64>
  %ss = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f64>) -> tensor<3xf64>
  %p = stablehlo.divide %e, %ss : tensor<3xf64>
  return %p : tensor<3xf64>
}
"""


def test_marks_in_a_file_are_proved_again() -> None:
    """Another tool may return a value of a marked function that depends on the shift."""
    text = load(SOFTMAX).text
    assert SHIFT in text
    assert SHIFT not in load(text.replace("return %6", "return %3")).text


def test_intermediate_values_have_the_tangent_of_the_shift() -> None:
    view = load(SOFTMAX).view
    graph = view.graph("main")
    for value, is_result in ((graph.outputs[0], True), (graph.outputs[0].definition.operands[0], False)):
        linear = linearize(view, [value], ["x"], OPSET)
        names = [op.name for op in linear.definitions]
        assert ("stablehlo.select" in names) is not is_result  # the tangent of the maximum
