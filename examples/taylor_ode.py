"""Integrates the Lorenz system by Taylor series of high order. The last coefficients determine the size of each step.

    python examples/taylor_ode.py              # runs order 20; prints the time until the first series is computed,
                                               # and the time of all steps
    python examples/taylor_ode.py --jax        # does the same with tiduc and with JAX

A compiled program computes all Taylor coefficients of the solution at a point. Each step is as long as possible such
that neither of the last two terms of the series exceeds TOLERANCE (Jorba and Zou, 2005).
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tiduc

Array = NDArray[np.float64]

ORDER = 20
TOLERANCE = 1e-15

LORENZ = """
func.func @main(%u: tensor<3xf64> {tidu.name = "u"}) -> tensor<3xf64> {
  %x = stablehlo.slice %u [0:1] : (tensor<3xf64>) -> tensor<1xf64>
  %y = stablehlo.slice %u [1:2] : (tensor<3xf64>) -> tensor<1xf64>
  %z = stablehlo.slice %u [2:3] : (tensor<3xf64>) -> tensor<1xf64>
  %sigma = stablehlo.constant dense<10.0> : tensor<1xf64>
  %rho = stablehlo.constant dense<28.0> : tensor<1xf64>
  %beta = stablehlo.constant dense<2.6666666666666665> : tensor<1xf64>
  %0 = stablehlo.subtract %y, %x : tensor<1xf64>
  %dx = stablehlo.multiply %sigma, %0 : tensor<1xf64>
  %1 = stablehlo.subtract %rho, %z : tensor<1xf64>
  %2 = stablehlo.multiply %x, %1 : tensor<1xf64>
  %dy = stablehlo.subtract %2, %y : tensor<1xf64>
  %3 = stablehlo.multiply %x, %y : tensor<1xf64>
  %4 = stablehlo.multiply %beta, %z : tensor<1xf64>
  %dz = stablehlo.subtract %3, %4 : tensor<1xf64>
  %du = stablehlo.concatenate %dx, %dy, %dz, dim = 0 : (tensor<1xf64>, tensor<1xf64>, tensor<1xf64>) -> tensor<3xf64>
  return %du : tensor<3xf64>
}
"""


def step_size(series: Array, tolerance: float) -> float:
    """The largest step size for which neither of the last two terms of the series exceeds the tolerance."""
    order = len(series)
    sizes = np.max(np.abs(series[-2:]), axis=1)
    return float(
        min((tolerance / size) ** (1 / k) for k, size in zip((order - 1, order), sizes, strict=True))
    )


def integrate(
    coefficients: Callable[[Array], Any], u: Array, end: float, tolerance: float = TOLERANCE
) -> tuple[Array, int]:
    """Integrates from u at time 0. Returns the solution at time `end`, and the number of steps."""
    t, steps = 0.0, 0
    while t < end:
        (series,) = coefficients(u)
        h = min(step_size(series, tolerance), end - t)
        total = np.zeros_like(u)
        for coefficient in series[::-1]:
            total = (total + coefficient) * h
        u, t, steps = u + total, t + h, steps + 1
    return u, steps


def jax_coefficients(order: int) -> Callable[[Array], Any]:
    """Returns a JAX function that computes the Taylor coefficients. Each call of JAX's `jet` adds one order."""
    import jax
    import jax.numpy as jnp
    from jax.experimental.jet import jet

    jax.config.update("jax_enable_x64", True)

    def lorenz(u: Any) -> Any:
        x, y, z = u
        return jnp.array([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])

    def series(u: Any) -> Any:
        derivatives = [lorenz(u)]
        for _ in range(order - 1):
            first, more = jet(lorenz, (u,), (derivatives,))
            derivatives = [first, *more]
        factors = 1 / np.cumprod(np.arange(1.0, order + 1))
        return (jnp.stack(derivatives[:order]) * factors[:, None],)

    return jax.jit(series)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--order", type=int, default=ORDER)
    parser.add_argument("--jax", action="store_true")
    given = parser.parse_args()
    start = np.array([1.0, 1.0, 1.0])
    makers: dict[str, Callable[[], Callable[[Array], Any]]] = {
        "tiduc": lambda: tiduc.load(LORENZ).flow(given.order).compile()
    }
    if given.jax:
        makers["JAX"] = lambda: jax_coefficients(given.order)
    for name, make in makers.items():
        began = time.perf_counter()
        coefficients = make()
        coefficients(start)
        made = time.perf_counter()
        end, steps = integrate(coefficients, start, 10.0)
        ran = time.perf_counter()
        print(f"{name}: made in {made - began:.1f} s, {steps} steps in {ran - made:.3f} s, u(10) = {end}")


if __name__ == "__main__":
    main()
