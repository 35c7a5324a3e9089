"""Test programs for `jax_libraries.py`: each solver, adjoint and step controller in diffrax's documentation."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import optimistix

Row = tuple[str, Callable[..., Any], tuple[Any, ...], tuple[str, ...]]
POINT = np.array([1.0, 0.3]), np.array([1.2, 0.9])

EXPLICIT = ("Euler", "Heun", "Midpoint", "Ralston", "Bosh3", "Tsit5", "Dopri5", "Dopri8")
IMPLICIT = ("ImplicitEuler", "Kvaerno3", "Kvaerno4", "Kvaerno5")
IMEX = ("Sil3", "KenCarp3", "KenCarp4", "KenCarp5")
SYMPLECTIC = ("SemiImplicitEuler",)
AREAS = diffrax.BrownianIncrement, diffrax.SpaceTimeLevyArea, diffrax.SpaceTimeTimeLevyArea
REVERSIBLE = ("ReversibleHeun", "LeapfrogMidpoint")
SDE = (
    "Euler",
    "EulerHeun",
    "Heun",
    "Midpoint",
    "ReversibleHeun",
    "ItoMilstein",
    "StratonovichMilstein",
    "SEA",
    "SRA1",
    "ShARK",
    "GeneralShARK",
    "SlowRK",
    "SPaRK",
)


def field(t: Any, y: Any, p: Any) -> Any:
    return jnp.stack([y[1], p[0] * (1 - y[0] ** 2) * y[1] - p[1] * y[0]])


@dataclass(frozen=True)
class Flow:
    """A function that solves an ODE. It maps the initial value and the parameters to the state at the last time.

    `options` are arguments of `diffeqsolve`, with `terms` and `end`.
    """

    solver: Any
    options: Mapping[str, Any]

    def __call__(self, y: Any, p: Any) -> Any:
        options = dict(self.options)
        terms, end = options.pop("terms"), options.pop("end")
        return diffrax.diffeqsolve(terms, self.solver, 0.0, end, y0=y, args=p, **options).ys

    def direct(self) -> "Flow | None":
        """The function with the adjoint through which JAX computes second derivatives. None for other adjoints.

        Finite differences are no reference for adaptive steps, because step sizes have no derivative in diffrax.
        """
        if "adjoint" in self.options:
            return None
        return Flow(self.solver, {**self.options, "adjoint": diffrax.DirectAdjoint(), "max_steps": 64})


def solve(solver: Any, **options: Any) -> Flow:
    """Returns a function that solves an ODE, by default that of the van der Pol oscillator, up to time 1."""
    return Flow(solver, {"dt0": 0.1, "terms": diffrax.ODETerm(field), "end": 1.0} | options)


def once(names: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yields the names of solvers of one kind, and the comparisons that are left out.

    Only the first solver is also tested as an export of `jax.grad`, because the programs of the others are similar.
    """
    yield from zip(names, ((), *[("exported",)] * (len(names) - 1)), strict=True)


def cases() -> Iterator[Row]:
    """Yields all test programs as tuples (name, function, arguments, comparisons that are left out)."""
    adaptive = diffrax.PIDController(rtol=1e-4, atol=1e-6)
    for name, without in once(EXPLICIT):
        yield f"solvers: {name}", solve(getattr(diffrax, name)(), dt0=0.25), POINT, without
    for name, without in once(EXPLICIT[1:]):
        flow = solve(getattr(diffrax, name)(), stepsize_controller=adaptive)
        yield f"adaptive solvers: {name}", flow, POINT, without
    for name, without in once(IMPLICIT):  # the root finder takes its tolerances from the controller
        flow = solve(getattr(diffrax, name)(), stepsize_controller=adaptive)
        yield f"implicit solvers: {name}", flow, POINT, without
    split = diffrax.MultiTerm(
        diffrax.ODETerm(lambda t, y, p: jnp.stack([y[1], -p[1] * y[0]])),
        diffrax.ODETerm(lambda t, y, p: jnp.stack([0 * y[1], p[0] * (1 - y[0] ** 2) * y[1]])),
    )
    # With adaptive steps, rounding changes the numbers of steps and iterations: JAX's own results then differ by 1e-5.
    tight = optimistix.Newton(rtol=1e-9, atol=1e-10)
    for name, without in once(IMEX):
        flow = solve(getattr(diffrax, name)(root_finder=tight), terms=split)
        yield f"IMEX solvers: {name}", flow, POINT, without
    for name in REVERSIBLE:
        yield f"reversible solvers: {name}", solve(getattr(diffrax, name)(), dt0=0.25), POINT, ()
    pair = diffrax.ODETerm(lambda t, v, p: p[0] * v), diffrax.ODETerm(lambda t, x, p: -p[1] * jnp.sin(x))
    for name in SYMPLECTIC:
        flow = solve(getattr(diffrax, name)(), terms=pair, dt0=0.25)
        yield f"symplectic solvers: {name}", lambda y, p, f=flow: f((y[0], y[1]), p), POINT, ()
    yield from _controllers()
    yield from _adjoints()
    yield from _saves()
    yield from _stochastic()


def _controllers() -> Iterator[Row]:
    pid = diffrax.PIDController(rtol=1e-4, atol=1e-6, pcoeff=0.3, icoeff=0.4)
    controllers = {
        "ConstantStepSize": (diffrax.ConstantStepSize(), {}),
        "StepTo": (diffrax.StepTo(ts=jnp.linspace(0.0, 1.0, 5)), {"dt0": None}),
        "PIDController": (pid, {}),
        "PIDController, no first step": (pid, {"dt0": None}),
        "PIDController, dtmin and dtmax": (
            diffrax.PIDController(rtol=1e-4, atol=1e-6, dtmin=0.01, dtmax=0.3),
            {},
        ),
        "ClipStepSizeController": (diffrax.ClipStepSizeController(pid, step_ts=[0.5], jump_ts=[0.7]), {}),
    }
    for name, (controller, options) in controllers.items():
        yield (
            f"controllers: {name}",
            solve(diffrax.Tsit5(), stepsize_controller=controller, **options),
            POINT,
            (),
        )


def _adjoints() -> Iterator[Row]:
    adjoints = {
        "RecursiveCheckpointAdjoint": (diffrax.RecursiveCheckpointAdjoint(), diffrax.Tsit5(), ()),
        "RecursiveCheckpointAdjoint, 3 checkpoints": (
            diffrax.RecursiveCheckpointAdjoint(checkpoints=3),
            diffrax.Tsit5(),
            (),
        ),
        "DirectAdjoint": (diffrax.DirectAdjoint(), diffrax.Tsit5(), ()),
        "BacksolveAdjoint": (diffrax.BacksolveAdjoint(), diffrax.Tsit5(), ()),
        "ForwardMode": (diffrax.ForwardMode(), diffrax.Tsit5(), ("exported",)),
        "ReversibleAdjoint": (
            getattr(diffrax, "ReversibleAdjoint", lambda: None)(),
            diffrax.ReversibleHeun(),
            (),
        ),
    }
    for name, (adjoint, solver, without) in adjoints.items():
        if adjoint is not None:
            yield f"adjoints: {name}", solve(solver, adjoint=adjoint, max_steps=16, dt0=0.25), POINT, without
    steady = diffrax.Event(diffrax.steady_state_event(1e-6, 1e-8))
    decay = diffrax.ODETerm(lambda t, y, p: p[:2] - jnp.array([2.0, 3.0]) * y - 0.1 * y**3)
    flow = solve(
        diffrax.Tsit5(),
        terms=decay,
        end=jnp.inf,
        event=steady,
        adjoint=diffrax.ImplicitAdjoint(),
        stepsize_controller=diffrax.PIDController(rtol=1e-8, atol=1e-10),
        max_steps=None,
    )
    yield "adjoints: ImplicitAdjoint", flow, POINT, ()


def _saves() -> Iterator[Row]:
    tsit = diffrax.Tsit5()
    saves = {
        "ts": diffrax.SaveAt(ts=jnp.linspace(0.0, 1.0, 4)),
        "t0, t1": diffrax.SaveAt(t0=True, t1=True),
        "a function": diffrax.SaveAt(t1=True, fn=lambda t, y, p: y**2 * p),
        "several": diffrax.SaveAt(subs=[diffrax.SubSaveAt(t1=True), diffrax.SubSaveAt(ts=jnp.array([0.5]))]),
    }
    for name, saveat in saves.items():
        yield f"results: SaveAt, {name}", solve(tsit, saveat=saveat), POINT, ()

    def dense(y: Any, p: Any) -> Any:
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(field),
            tsit,
            0.0,
            1.0,
            0.25,
            y,
            p,
            saveat=diffrax.SaveAt(dense=True),
            max_steps=16,
        )
        return jnp.stack([solution.evaluate(0.3), solution.derivative(0.6)])

    yield "results: SaveAt, dense", dense, POINT, ()
    event = diffrax.Event(lambda t, y, p, **_: y[0] - 0.9)
    yield "results: Event", solve(tsit, event=event, dt0=0.05), POINT, ()

    def forced(y: Any, p: Any) -> Any:
        control = diffrax.LinearInterpolation(
            jnp.linspace(0.0, 1.0, 4), jnp.stack([p[0], p[1], p[0] * p[1], p[1] ** 2])
        )
        term = diffrax.ControlTerm(lambda t, y, _: jnp.stack([y[1], -y[0]]), control).to_ode()
        return diffrax.diffeqsolve(term, tsit, 0.0, 1.0, 0.25, y).ys

    yield "results: ControlTerm of an interpolation", forced, POINT, ()

    def batched(y: Any, p: Any) -> Any:
        return jax.vmap(solve(tsit, dt0=0.25), (0, None))(jnp.stack([y, 2 * y]), p)

    yield "results: vmap", batched, POINT, ()


def _stochastic() -> Iterator[Row]:
    for name, without in once(SDE):
        solver = getattr(diffrax, name)()
        least = getattr(solver, "minimal_levy_area", diffrax.BrownianIncrement)
        area = next(each for each in AREAS if issubclass(each, least))
        for path in ("VirtualBrownianTree", "UnsafeBrownianPath"):
            if path == "UnsafeBrownianPath" and name != "Euler":
                continue

            def noisy(y: Any, p: Any, solver: Any = solver, area: Any = area, path: str = path) -> Any:
                key = jax.random.PRNGKey(3)
                if path == "VirtualBrownianTree":
                    noise: Any = diffrax.VirtualBrownianTree(0.0, 1.0, 1e-2, (), key, levy_area=area)
                    adjoint: Any = diffrax.RecursiveCheckpointAdjoint()
                else:
                    noise = diffrax.UnsafeBrownianPath((), key, levy_area=area)
                    adjoint = diffrax.DirectAdjoint()
                drift = diffrax.ODETerm(field)
                diffusion = diffrax.ControlTerm(lambda t, y, p: 0.1 * p, noise)
                terms = diffrax.MultiTerm(drift, diffusion)
                return diffrax.diffeqsolve(terms, solver, 0.0, 1.0, 0.25, y, p, adjoint=adjoint).ys

            yield (
                f"SDE solvers: {name}{', ' + path if path != 'VirtualBrownianTree' else ''}",
                noisy,
                POINT,
                without,
            )
