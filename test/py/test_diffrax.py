"""Derivatives of solvers of differential equations, exported from diffrax. Their loops have data-dependent trip counts.

diffrax's `DirectAdjoint` differentiates the steps of the solver. JAX can do so in reverse mode only if `max_steps`
bounds the number of steps. Derivatives with adaptive steps are compared with central differences, because diffrax
treats the step sizes as constants, but an exported program does not say so.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness import xla
from harness.compare import compare
from numpy.typing import NDArray

import tiduc
from tiduc.backends.reference.interpreter import evaluate

Array = NDArray[Any]


class RungeKutta(diffrax.AbstractERK):  # type: ignore[misc]
    """The classic fourth-order method, which diffrax does not include."""

    tableau: ClassVar[diffrax.ButcherTableau] = diffrax.ButcherTableau(
        a_lower=(np.array([0.5]), np.array([0.0, 0.5]), np.array([0.0, 0.0, 1.0])),
        b_sol=np.array([1 / 6, 1 / 3, 1 / 3, 1 / 6]),
        b_error=np.zeros(4),
        c=np.array([0.5, 0.5, 1.0]),
    )
    interpolation_cls: ClassVar[Callable[..., Any]] = diffrax.ThirdOrderHermitePolynomialInterpolation.from_k

    def order(self, terms: Any) -> int:
        return 4


ADAPTIVE = diffrax.PIDController(rtol=1e-4, atol=1e-6)
POINT = np.array([1.0, 0.3]), np.array([1.2, 0.9])
DIRECTION = np.array([0.4, -0.7]), np.array([0.3, 0.5])


def solved(solver: Any, controller: Any, max_steps: int | None) -> Callable[..., Any]:
    """A function that maps an initial value and parameters to a number.

    The number is a weighted sum of squares of the state of a van der Pol oscillator at time 1.
    """

    def field(t: Any, y: Any, p: Any) -> Any:
        return jnp.stack([y[1], p[0] * (1 - y[0] ** 2) * y[1] - p[1] * y[0]])

    def functional(y: Any, p: Any) -> Any:
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(field),
            solver,
            0.0,
            1.0,
            0.1,
            y,
            p,
            stepsize_controller=controller,
            adjoint=diffrax.DirectAdjoint(),
            max_steps=max_steps,
            throw=False,
        )
        return jnp.sum(solution.ys[-1] ** 2 * jnp.array([1.0, 0.5]))

    return functional


def loaded(function: Callable[..., Any]) -> tiduc.Program:
    with jax.enable_x64(True):
        return tiduc.load(jax.jit(function).lower(*POINT).as_text())


def derivatives(
    program: tiduc.Program, run: Callable[..., Any]
) -> tuple[Array, list[Array], list[Array], list[Array]]:
    """Evaluates the JVP, the gradient, the JVP of the gradient, and the VJP of the gradient."""
    gradient = program.grad()
    (_, dy) = run(program.jvp().text, [*POINT, *DIRECTION])
    return (
        dy,
        list(run(gradient.text, POINT)),
        list(run(program.hvp().text, [*POINT, *DIRECTION])),
        list(run(gradient.vjp().text, [*POINT, *DIRECTION])[2:]),
    )


@pytest.mark.more
@pytest.mark.parametrize("max_steps", [pytest.param(16, marks=pytest.mark.slow), None])
def test_runge_kutta(max_steps: int | None) -> None:
    """With constant steps, derivatives of order one and two in both modes equal JAX's.

    JAX's own derivatives use `max_steps=16`, because JAX's reverse mode needs a bound.
    """
    dy, gradient, forwards, backwards = derivatives(
        loaded(solved(RungeKutta(), diffrax.ConstantStepSize(), max_steps)), evaluate
    )
    bounded = solved(RungeKutta(), diffrax.ConstantStepSize(), 16)
    with jax.enable_x64(True):
        both = jax.jvp(jax.jit(jax.grad(bounded, (0, 1))), POINT, DIRECTION)
    wanted, second = ([np.asarray(x) for x in actual] for actual in both)
    compare(gradient, wanted, 1e-10)
    compare([dy], [sum(np.sum(x * d) for x, d in zip(wanted, DIRECTION, strict=True))], 1e-10)
    compare(forwards, second, 1e-10)
    compare(backwards, second, 1e-10)


@pytest.mark.slow
@pytest.mark.parametrize(("solver", "max_steps"), [(diffrax.Tsit5(), 16), (diffrax.Bosh3(), None)])
def test_adaptive(solver: Any, max_steps: int | None) -> None:
    """With adaptive steps, the derivatives equal central differences. They include the derivatives of the step sizes.

    JAX's derivative omits those of the step sizes, so it is only approximately equal.
    """
    function = solved(solver, ADAPTIVE, max_steps)
    program = loaded(function)
    dy, gradient, forwards, backwards = derivatives(program, xla.by_xla)

    def along(step: float) -> list[Array]:
        at = [[x + s * d for x, d in zip(POINT, DIRECTION, strict=True)] for s in (step, -step)]
        both = [(*xla.by_xla(program.text, x), *xla.by_xla(program.grad().text, x)) for x in at]
        return [(a - b) / (2 * step) for a, b in zip(*both, strict=True)]

    compare([dy, *forwards], along(1e-5), 1e-7)
    compare([dy], [sum(np.sum(x * d) for x, d in zip(gradient, DIRECTION, strict=True))], 1e-10)
    compare(backwards, forwards, 1e-9)
    with jax.enable_x64(True):
        steady = np.asarray(jax.jvp(jax.jit(function), POINT, DIRECTION)[1])
    compare([dy], [steady], 1e-3)
