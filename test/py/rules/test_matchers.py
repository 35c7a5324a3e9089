"""Functions that JAX exports as several ops. Differentiating each op would give kinks or overflow."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness.check_rule import check_rule
from harness.exports import exported
from harness.xla import by_xla

from tiduc.loading import load

pytestmark = pytest.mark.usefixtures("double_precision")


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_logistic_of_large_values(dtype: Any) -> None:
    """The derivative of JAX's sigmoid is right for large |x|, although exp(-x) is infinite for large negative x."""
    x = np.array([-1e4, -800, -90, -12, 0, 12, 800], dtype)
    p = load(exported(jax.nn.sigmoid, x))
    assert "exponential" in str(p)
    for q in (p.jvp(), p.vjp()):
        y, dy = by_xla(str(q), [x, np.full(7, 2, dtype)])
        np.testing.assert_allclose(dy, 2 * y * (1 - y), rtol=float(np.finfo(dtype).eps), atol=1e-30)


def test_logistic() -> None:
    x = np.array([-2.3, 0.0, 1.7])
    check_rule(exported(jax.nn.sigmoid, x), x, order=3, jax_function=jax.nn.sigmoid)


def test_log_add_exp_of_equal_values() -> None:
    x, y = np.array([0.7, -1.2, 0.0, 3.0]), np.array([0.7, 0.4, 0.0, 3.0])
    check_rule(exported(jnp.logaddexp, x, y), x, y, jax_function=jnp.logaddexp)


@pytest.mark.parametrize("function", [jax.nn.softplus, jax.nn.log_sigmoid, jax.lax.cumlogsumexp])
def test_functions_of_it_at_zero(function: Any) -> None:
    """Derivatives of functions that use logaddexp are JAX's at zero, where training starts if all weights are zero."""
    x = np.zeros(3)
    check_rule(exported(function, x), x, jax_function=function, order=2)


def test_log_add_exp_of_infinities() -> None:
    x = np.array([-np.inf, -np.inf, np.inf, 1.0])
    y = np.array([-np.inf, 2.0, np.inf, -np.inf])
    _, cx, cy = by_xla(str(load(exported(jnp.logaddexp, x, y)).vjp()), [x, y, np.ones(4)])
    np.testing.assert_array_equal([cx, cy], [[1, 0, 1, 1], [1, 1, 1, 0]])  # both are 1 if x = y is infinite


REST = """
    %a = stablehlo.abs %d : tensor<2xf64>
    %n = stablehlo.negate %a : tensor<2xf64>
    %e = stablehlo.exponential %n : tensor<2xf64>
    %l = stablehlo.log_plus_one %e : tensor<2xf64>"""


@pytest.mark.parametrize("other", ["%y, %x", "%x, %z", "%z, %y"])
def test_similar_ops_that_do_not_match(other: str) -> None:
    text = f"""
    func.func @main(%x: tensor<2xf64>, %y: tensor<2xf64>, %z: tensor<2xf64>) -> tensor<2xf64> {{
      %m = stablehlo.maximum %x, %y : tensor<2xf64>
      %d = stablehlo.subtract {other} : tensor<2xf64>{REST}
      %r = stablehlo.add %l, %m : tensor<2xf64>
      return %r : tensor<2xf64>
    }}"""
    check_rule(text, np.array([0.3, 2.0]), np.array([1.1, 0.4]), np.array([-0.5, 0.9]))


@pytest.mark.parametrize(("one", "two"), [(1.0, 2.0), (2.0, 1.0)])
def test_ops_similar_to_a_logistic(one: float, two: float) -> None:
    text = f"""
    func.func @main(%x: tensor<2xf64>) -> tensor<2xf64> {{
      %one = stablehlo.constant dense<{one}> : tensor<2xf64>
      %two = stablehlo.constant dense<{two}> : tensor<2xf64>
      %e = stablehlo.exponential %x : tensor<2xf64>
      %t = stablehlo.add %e, %one : tensor<2xf64>
      %r = stablehlo.divide %two, %t : tensor<2xf64>
      return %r : tensor<2xf64>
    }}"""
    check_rule(text, np.array([0.3, -2.0]))
