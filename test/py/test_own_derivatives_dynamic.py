"""Functions with a custom VJP, and with arrays of dynamic sizes."""

import numpy as np
import pytest
from harness.compare import compare

import tiduc

T = "tensor<?xf64>"
PROGRAM = f"""
func.func @main(%x: {T}, %k: tensor<2xf64>) -> tensor<f64> {{
  %zero = stablehlo.constant dense<0.0> : tensor<f64>
  %0 = stablehlo.sine %x : {T}
  %1:2 = call @step(%0, %k) : ({T}, tensor<2xf64>) -> ({T}, tensor<?xi1>)
  %2 = stablehlo.negate %1#0 : {T}
  %3 = stablehlo.reduce(%2 init: %zero) applies stablehlo.add across dimensions = [0]
    : ({T}, tensor<f64>) -> tensor<f64>
  return %3 : tensor<f64>
}}
func.func private @step(%x: {T}, %k: tensor<2xf64>) -> ({T}, tensor<?xi1>) attributes {{tidu.vjp = @pull}} {{
  %0 = stablehlo.exponential %x : {T}
  %1 = stablehlo.compare GT, %0, %x : ({T}, {T}) -> tensor<?xi1>
  return %0, %1 : {T}, tensor<?xi1>
}}
func.func private @pull(%x: {T}, %k: tensor<2xf64>, %ct: {T}) -> ({T}, tensor<2xf64>) {{
  %zero = stablehlo.constant dense<0.0> : tensor<f64>
  %0 = stablehlo.exponential %x : {T}
  %1 = stablehlo.multiply %0, %ct : {T}
  %2 = stablehlo.negate %1 : {T}
  %3 = stablehlo.reduce(%2 init: %zero) applies stablehlo.add across dimensions = [0]
    : ({T}, tensor<f64>) -> tensor<f64>
  %4 = stablehlo.broadcast_in_dim %3, dims = [] : (tensor<f64>) -> tensor<2xf64>
  %5 = stablehlo.multiply %4, %k : tensor<2xf64>
  %6 = stablehlo.add %1, %1 : {T}
  %7 = stablehlo.add %6, %1 : {T}
  return %7, %5 : {T}, tensor<2xf64>
}}
"""
"""The sum of -exp(sin x). The custom derivative of @step toward x is three times the right one."""


@pytest.mark.parametrize("size", [2, 5])
def test_derivatives_of_two_orders(size: int) -> None:
    """Gradients and Hessian products follow from the custom VJP, whose ops are differentiated in second order."""
    program = tiduc.load(PROGRAM)
    random = np.random.default_rng(size)
    x, v = random.normal(size=(2, size))
    k, u = random.normal(size=(2, 2))
    s, c = np.sin(x), np.cos(x)
    y = np.exp(s)
    bend = -3 * y * (c**2 - s) * v
    slopes = [-3 * y * c, y.sum() * k]
    of_vjp = [bend + (u @ k) * y * c, y.sum() * u]
    of_jvp = [bend, (y * c * v).sum() * k + y.sum() * u]
    gradient, one = program.vjp(["x", "k"]), np.array(1.0)
    found = gradient.compile(engine="reference")(x, k, one)
    compare(found[1:], slopes, 1e-13, "gradient")
    found = gradient.vjp(["x", "k"]).compile(engine="reference")(x, k, one, np.array(0.0), v, u)
    compare(found[3:], of_vjp, 1e-13, "VJP of the gradient")
    found = program.hvp(["x", "k"]).compile(engine="reference")(x, k, v, u)
    compare(found[-2:], of_jvp, 1e-13, "Hessian product")
