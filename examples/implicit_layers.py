"""Differentiates five iterative solvers in two ways: by the equation that they solve, and through the iterations.

    python examples/implicit_layers.py            # all five, with n = 60
    python examples/implicit_layers.py --size 20

Each solver is a layer that is written in JAX twice: with `jax.lax.custom_root`, whose derivative solves one linear
system, and as a plain loop. `tiduc.from_jax` imports both. For the gradient through the loop, values of all iterations
must be stored; for the gradient by the equation, none. The script compares the results and the times.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import tiduc

Function = Callable[..., Any]


def by_gmres(linear: Function, right: Any) -> Any:
    return jax.scipy.sparse.linalg.gmres(linear, right, tol=1e-12)[0]


def by_matrix(linear: Function, right: Any) -> Any:
    return jnp.linalg.solve(jax.jacobian(linear)(right), right)


@dataclass(frozen=True)
class Layer:
    """A layer that solves f(parameters, y) = 0 iteratively.

    `equation` is f. `start` maps the parameters to the first y, and `step` computes a better y; it is called `steps`
    times. `tangent_solve` solves the linear equation for the tangents. `result` maps the final y to the layer's output.
    """

    equation: Function
    start: Function
    step: Function
    steps: int
    tangent_solve: Function
    parameters: tuple[Any, ...]
    result: Function = lambda y: y

    def implicit(self, *parameters: Any) -> Any:
        def solve(_: Function, y: Any) -> Any:
            return jax.lax.fori_loop(0, self.steps, lambda _, y: self.step(*parameters, y), y)

        y = jax.lax.custom_root(
            lambda y: self.equation(*parameters, y), self.start(*parameters), solve, self.tangent_solve
        )
        return self.result(y)

    def unrolled(self, *parameters: Any) -> Any:
        y = self.start(*parameters)
        return self.result(jax.lax.fori_loop(0, self.steps, lambda _, y: self.step(*parameters, y), y))


def newton_step(equation: Function) -> Function:
    def step(*given: Any) -> Any:
        *parameters, y = given
        residual = equation(*parameters, y)
        return y - jnp.linalg.solve(jax.jacobian(lambda y: equation(*parameters, y))(y), residual)

    return step


def newton(n: int, draw: Function) -> Layer:
    """Solves y + y^3 + A y = b by Newton's method."""

    def equation(a: Any, b: Any, y: Any) -> Any:
        return y + y**3 + a @ y - b

    parameters = draw(n, n) / n, draw(n)
    return Layer(equation, lambda a, b: b, newton_step(equation), 12, by_gmres, parameters)


def fixed_point(n: int, draw: Function) -> Layer:
    """Solves y = tanh(W y + b) by fixed-point iteration. Such a layer is a deep equilibrium model."""

    def step(w: Any, b: Any, y: Any) -> Any:
        return jnp.tanh(w @ y + b)

    parameters = draw(n, n) / (3 * np.sqrt(n)), draw(n)
    return Layer(lambda w, b, y: step(w, b, y) - y, lambda w, b: b, step, 60, by_gmres, parameters)


def ode_step(n: int, draw: Function) -> Layer:
    """Solves y - h (c D y + y - y^3) = x, one step of the implicit Euler method for a reaction-diffusion equation.

    D is the discretized second derivative, and h is 0.1.
    """

    def equation(c: Any, x: Any, y: Any) -> Any:
        padded = jnp.pad(y, 1)
        diffusion = c * n**2 * (padded[2:] - 2 * y + padded[:-2])
        return y - 0.1 * (diffusion + y - y**3) - x

    parameters = np.float64(0.02), draw(n)
    return Layer(equation, lambda c, x: x, newton_step(equation), 10, by_gmres, parameters)


def quadratic_program(n: int, draw: Function) -> Layer:
    """Minimizes x'Qx/2 + q'x subject to A x = b and x >= -1 by an interior point method.

    The equation that the solution satisfies is the system of KKT conditions.
    """
    m = n // 4
    a, factor = draw(m, n), draw(n, n)
    base = factor @ factor.T / n + np.eye(n)

    def parts(y: Any) -> tuple[Any, Any, Any]:
        return y[:n], y[n : n + m], y[n + m :]

    def conditions(q: Any, b: Any, y: Any, barrier: float) -> Any:
        x, free, bound = parts(y)
        return jnp.concatenate([base @ x + q + a.T @ free - bound, a @ x - b, bound * (x + 1) - barrier])

    def step(q: Any, b: Any, y: Any) -> Any:
        x, _, bound = parts(y)
        barrier = 0.1 * jnp.sum(bound * (x + 1)) / n
        residual = conditions(q, b, y, barrier)
        d = -jnp.linalg.solve(jax.jacobian(conditions, 2)(q, b, y, barrier), residual)
        dx, _, dbound = parts(d)
        to_bounds = [jnp.min(jnp.where(dv < 0, -v / dv, jnp.inf)) for v, dv in ((x + 1, dx), (bound, dbound))]
        return y + jnp.minimum(1.0, 0.95 * jnp.minimum(*to_bounds)) * d

    start = np.concatenate([np.zeros(n + m), np.ones(n)])
    parameters = draw(n), a @ (0.3 * draw(n))
    return Layer(
        lambda q, b, y: conditions(q, b, y, 0.0),
        lambda q, b: jnp.asarray(start),
        step,
        40,
        by_matrix,
        parameters,
        lambda y: y[:n],
    )


def sinkhorn(n: int, draw: Function) -> Layer:
    """Solves an entropy-regularized optimal transport problem by Sinkhorn's iteration.

    The parameters are the matrix of costs and the weights of its rows. The result is the dual potentials of the rows.
    """

    def step(costs: Any, weights: Any, y: Any) -> Any:
        columns = -jax.nn.logsumexp(y[:, None] - costs, 0) - np.log(n)
        rows = jnp.log(weights) - jax.nn.logsumexp(columns - costs, 1)
        return rows - jnp.mean(rows)

    weights = np.exp(0.3 * draw(n))
    parameters = np.abs(draw(n, n)), weights / np.sum(weights)
    return Layer(
        lambda c, w, y: step(c, w, y) - y, lambda c, w: jnp.zeros(n), step, 200, by_gmres, parameters
    )


LAYERS: dict[str, Callable[[int, Function], Layer]] = {
    "Newton": newton,
    "fixed point": fixed_point,
    "implicit step": ode_step,
    "quadratic program": quadratic_program,
    "Sinkhorn": sinkhorn,
}


def gradients(layer: Layer) -> tuple[tiduc.Program, tiduc.Program]:
    """Returns two programs for the VJP of a layer: by implicit differentiation, and through the iterations."""
    implicit, unrolled = (tiduc.from_jax(f, *layer.parameters) for f in (layer.implicit, layer.unrolled))
    return implicit.vjp(), unrolled.vjp()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=60)
    given = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    for name, make in LAYERS.items():
        draw = np.random.default_rng(0).standard_normal
        layer = make(given.size, lambda *sizes, draw=draw: draw(sizes))
        found = []
        for program in gradients(layer):
            call = program.compile()
            seed = np.cos(np.arange(float(np.prod(program.signature.inputs[-1].type.shape))))
            times = []
            for _ in range(5):
                began = time.perf_counter()
                results = call(*layer.parameters, seed)
                times.append(time.perf_counter() - began)
            found.append((results[1:], min(times)))
        (one, by_equation), (other, by_loop) = found
        error = max(np.max(np.abs(x - y)) / np.max(np.abs(y)) for x, y in zip(one, other, strict=True))
        compared = f"{by_equation * 1e3:.1f} ms by the equation, {by_loop * 1e3:.1f} ms through the loop"
        print(f"{name}: {compared}; relative difference {error:.0e}")


if __name__ == "__main__":
    main()
