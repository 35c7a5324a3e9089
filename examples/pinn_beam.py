"""Trains a physics-informed network for a bent beam: u'''' = pi^4 sin(pi x), with the solution u = sin(pi x).

    python examples/pinn_beam.py              # runs 2000 steps; prints the time until the first step has run,
                                              # and the mean time of a later step
    python examples/pinn_beam.py --jax        # does the same with tiduc and with JAX

A jet of order 4 computes the derivatives of u with respect to x up to the fourth. The program of the loss contains the
program of the jet and calls it, so the gradient with respect to the weights is reverse mode over Taylor mode.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tiduc

Array = NDArray[Any]

POINTS, WIDTH = 64, 32
WEIGHTS = [(WIDTH,), (WIDTH,), (WIDTH, WIDTH), (WIDTH,), (WIDTH,)]

NETWORK = """
func.func @main(%w1: tensor<32xf32>, %b1: tensor<32xf32>, %w2: tensor<32x32xf32>, %b2: tensor<32xf32>,
                %w3: tensor<32xf32>, %x: tensor<64xf32>) -> tensor<64xf32> {
  %0 = stablehlo.dot_general %x, %w1, contracting_dims = [] x [] : (tensor<64xf32>, tensor<32xf32>) -> tensor<64x32xf32>
  %1 = stablehlo.broadcast_in_dim %b1, dims = [1] : (tensor<32xf32>) -> tensor<64x32xf32>
  %2 = stablehlo.add %0, %1 : tensor<64x32xf32>
  %3 = stablehlo.tanh %2 : tensor<64x32xf32>
  %4 = stablehlo.dot_general %3, %w2, contracting_dims = [1] x [0]
      : (tensor<64x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
  %5 = stablehlo.broadcast_in_dim %b2, dims = [1] : (tensor<32xf32>) -> tensor<64x32xf32>
  %6 = stablehlo.add %4, %5 : tensor<64x32xf32>
  %7 = stablehlo.tanh %6 : tensor<64x32xf32>
  %8 = stablehlo.dot_general %7, %w3, contracting_dims = [1] x [0]
      : (tensor<64x32xf32>, tensor<32xf32>) -> tensor<64xf32>
  return %8 : tensor<64xf32>
}
"""

# The jet computes the Taylor series of u(x + t) in t, so the coefficient of t^k is the k-th derivative divided by k!.
# The first and the last point are the ends of the beam, where u and u'' must be 0.
LOSS = """
func.func @main(%w1: tensor<32xf32>, %b1: tensor<32xf32>, %w2: tensor<32x32xf32>, %b2: tensor<32xf32>,
                %w3: tensor<32xf32>, %x: tensor<64xf32>) -> tensor<f32> {
  %one = stablehlo.constant dense<1.0> : tensor<1x64xf32>
  %none = stablehlo.constant dense<0.0> : tensor<3x64xf32>
  %dx = stablehlo.concatenate %one, %none, dim = 0 : (tensor<1x64xf32>, tensor<3x64xf32>) -> tensor<4x64xf32>
  %u, %series = func.call @jet(%w1, %b1, %w2, %b2, %w3, %x, %dx)
      : (tensor<32xf32>, tensor<32xf32>, tensor<32x32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<64xf32>,
         tensor<4x64xf32>) -> (tensor<64xf32>, tensor<4x64xf32>)
  %u2 = stablehlo.slice %series [1:2, 0:64] : (tensor<4x64xf32>) -> tensor<1x64xf32>
  %u4 = stablehlo.slice %series [3:4, 0:64] : (tensor<4x64xf32>) -> tensor<1x64xf32>
  %scale = stablehlo.constant dense<0.246383594> : tensor<64xf32>  // 4! / pi^4
  %0 = stablehlo.reshape %u4 : (tensor<1x64xf32>) -> tensor<64xf32>
  %1 = stablehlo.multiply %0, %scale : tensor<64xf32>
  %pi = stablehlo.constant dense<3.14159265> : tensor<64xf32>
  %2 = stablehlo.multiply %x, %pi : tensor<64xf32>
  %3 = stablehlo.sine %2 : tensor<64xf32>
  %r = stablehlo.subtract %1, %3 : tensor<64xf32>
  %4 = stablehlo.dot_general %r, %r, contracting_dims = [0] x [0] : (tensor<64xf32>, tensor<64xf32>) -> tensor<f32>
  %count = stablehlo.constant dense<64.0> : tensor<f32>
  %residual = stablehlo.divide %4, %count : tensor<f32>
  %5 = stablehlo.reshape %u : (tensor<64xf32>) -> tensor<1x64xf32>
  %6 = stablehlo.concatenate %5, %u2, dim = 0 : (tensor<1x64xf32>, tensor<1x64xf32>) -> tensor<2x64xf32>
  %ends = stablehlo.slice %6 [0:2, 0:64:63] : (tensor<2x64xf32>) -> tensor<2x2xf32>
  %7 = stablehlo.dot_general %ends, %ends, contracting_dims = [0, 1] x [0, 1]
      : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<f32>
  %8 = stablehlo.add %residual, %7 : tensor<f32>
  return %8 : tensor<f32>
}
"""


def gradient() -> tiduc.Program:
    """The program that maps the weights and the points to the loss and the gradient for each array of weights."""
    jet = tiduc.load(NETWORK).jet(4, "x").text.rstrip().removesuffix("}")
    return tiduc.load(jet.replace("@main", "private @jet") + LOSS + "}").grad(range(len(WEIGHTS)), value=True)


def jax_gradient() -> Callable[..., Any]:
    """The loss and its gradient in JAX. Four nested gradients compute u'''' at a point; `vmap` batches over points."""
    import jax
    import jax.numpy as jnp

    def u(weights: Any, x: Any) -> Any:
        w1, b1, w2, b2, w3 = weights
        return jnp.tanh(jnp.tanh(x * w1 + b1) @ w2 + b2) @ w3

    def loss(weights: Any, x: Any) -> Any:
        second = jax.grad(jax.grad(u, 1), 1)
        fourth = jax.grad(jax.grad(second, 1), 1)
        r = jax.vmap(fourth, (None, 0))(weights, x) / jnp.pi**4 - jnp.sin(jnp.pi * x)
        ends = x[:: len(x) - 1]
        at_ends = [jax.vmap(f, (None, 0))(weights, ends) for f in (u, lambda w, x: second(w, x) / 2)]
        return jnp.mean(r * r) + sum(jnp.sum(y * y) for y in at_ends)

    both = jax.jit(jax.value_and_grad(loss))

    def run(*arguments: Any) -> Sequence[Array]:
        value, gradients = both(tuple(arguments[:-1]), arguments[-1])
        return [np.asarray(y) for y in (value, *gradients)]

    return run


def start() -> tuple[list[Array], Array]:
    """The initial weights, and the points on the beam at which the equation is imposed."""
    draw = np.random.default_rng(0)
    weights = [draw.standard_normal(size).astype(np.float32) / np.float32(len(size) * 2) for size in WEIGHTS]
    return weights, np.linspace(0, 1, POINTS, dtype=np.float32)


def train(step: Callable[..., Sequence[Array]], steps: int, rate: float = 2e-3) -> list[float]:
    """Trains the weights by Adam, and returns the loss before each step."""
    weights, x = start()
    first, second = ([np.zeros_like(w) for w in weights] for _ in range(2))
    losses = []
    for t in range(1, steps + 1):
        loss, *gradients = step(*weights, x)
        losses.append(float(loss))
        for w, m, v, g in zip(weights, first, second, gradients, strict=True):
            m += 0.1 * (g - m)
            v += 0.001 * (g * g - v)
            w -= rate * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return losses


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--engine", default="iree")
    parser.add_argument("--jax", action="store_true")
    given = parser.parse_args()
    makers: dict[str, Callable[[], Any]] = {"tiduc": lambda: gradient().compile(engine=given.engine)}
    if given.jax:
        makers["JAX"] = jax_gradient
    for name, make in makers.items():
        began = time.perf_counter()
        step = make()
        train(step, 1)
        made = time.perf_counter()
        losses = train(step, given.steps)
        ran = (time.perf_counter() - made) / given.steps * 1e6
        print(
            f"{name}: made in {made - began:.1f} s, {ran:.0f} us a step, loss {losses[0]:.3f} -> {losses[-1]:.5f}"
        )


if __name__ == "__main__":
    main()
