"""Times Jacobians by tiduc and by JAX's jacfwd and jacrev. XLA compiles all of them.

    python test/bench/jacobians.py [--help]

Each row has the least time of a call in milliseconds, in f64. The calls alternate. The columns `forward` and `reverse`
are `Program.jacobian` in these modes without sparsity, and `auto` is `Program.jacobian` with the sparsity of the case.
The relative error is that of `auto` relative to jacfwd.
"""

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from suite import by_xla, least

from tiduc.loading import load

SECONDS = 3.0
"""The total time of the calls for each row, in seconds."""


class Case(NamedTuple):
    """A function, its arguments, the positions of differentiated arguments, and the argument `sparsity` of
    `Program.jacobian`."""

    function: Callable[..., Any]
    arguments: list[Any]
    wrt: tuple[int, ...]
    sparsity: str | None


def autoencoder(x: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """Returns the output of an autoencoder for x: (n,). Its narrowest layer has b.shape[1] units."""
    return jnp.tanh(jnp.tanh(jnp.tanh(x @ a) @ b) @ c) @ d


def stencil(u: Any) -> Any:
    """Returns the residuals of a nonlinear diffusion equation at n points.

    Each depends on three neighbouring points.
    """
    padded = jnp.pad(u, 1)
    flux = (1 + u**2) * (padded[2:] - 2 * u + padded[:-2])
    return flux + jnp.sin(u)


def reprojection(cameras: Any, points: Any, observed: Any, seen: Any) -> Any:
    """Returns the errors of projected points.

    Each error depends on one camera (9 numbers) and one point (3 numbers).
    """
    camera, point = cameras[seen[0]], points[seen[1]]
    angle, shift = camera[:, :3], camera[:, 3:6]
    rotated = point + jnp.cross(angle, point) + 0.5 * jnp.cross(angle, jnp.cross(angle, point)) + shift
    image = rotated[:, :2] / (rotated[:, 2:] + 10)
    radius = jnp.sum(image**2, axis=1, keepdims=True)
    distorted = image * (1 + camera[:, 7:8] * radius + camera[:, 8:9] * radius**2)
    return camera[:, 6:7] * distorted - observed


def losses(a: Any, b: Any, c: Any, x: Any) -> Any:
    """Returns the losses of all samples of a batch, as a vector."""
    return jnp.sum(jnp.tanh(jnp.tanh(x @ a) @ b) @ c, axis=1) ** 2


def cases(is_small: bool) -> dict[str, Case]:
    rng = np.random.default_rng(0)

    def normal(*sizes: int) -> Any:
        return rng.standard_normal(sizes) / np.sqrt(sizes[0])

    n, h, waist = (40, 20, 4) if is_small else (1000, 512, 8)
    cams, pts, obs = (3, 8, 20) if is_small else (20, 200, 1000)
    seen = np.stack([rng.integers(0, cams, obs), rng.integers(0, pts, obs)])
    batch, width = (6, 5) if is_small else (64, 32)
    return {
        "encoder-decoder": Case(
            autoencoder,
            [normal(n), normal(n, h), normal(h, waist), normal(waist, h), normal(h, n)],
            (0,),
            None,
        ),
        "stencil": Case(stencil, [normal(n)], (0,), "auto"),
        "bundle adjustment": Case(
            lambda cameras, points, observed: reprojection(cameras, points, observed, seen),
            [normal(cams, 9), normal(pts, 3), rng.standard_normal((obs, 2))],
            (0, 1),
            "auto",
        ),
        "per-sample losses": Case(
            losses,
            [normal(width, width), normal(width, width), normal(width, width), normal(batch, width)],
            (0, 1, 2),
            "auto",
        ),
    }


# ---- measures ----------------------------------------------------------------------------------------------


def texts(case: Case) -> dict[str, str]:
    """Returns the StableHLO texts of the Jacobian, by the names of the table's columns."""
    program = load(jax.jit(case.function, keep_unused=True).lower(*case.arguments).as_text())
    wrt = list(case.wrt)

    def by_jax(derivative: Callable[..., Any]) -> str:
        jitted = jax.jit(derivative(case.function, case.wrt), keep_unused=True)
        return str(jitted.lower(*case.arguments).as_text())

    return {
        "jacfwd": by_jax(jax.jacfwd),
        "jacrev": by_jax(jax.jacrev),
        "forward": program.jacobian(wrt, "forward").text,
        "reverse": program.jacobian(wrt, "reverse").text,
        "auto": program.jacobian(wrt, sparsity=case.sparsity).text,
    }


def row(case: Case) -> dict[str, float]:
    """Returns the figures of a row: the milliseconds of a call for each column, and the relative error of `auto`."""
    compiled = {way: by_xla(text, case.arguments).call for way, text in texts(case).items()}
    expected, actual = compiled["jacfwd"](), compiled["auto"]()
    error = max(
        float(np.max(np.abs(x - y)) / np.max(np.abs(y))) for x, y in zip(actual, expected, strict=True)
    )
    return {way: time_ / 1e3 for way, time_ in least(compiled, SECONDS).items()} | {"error": error}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="names of rows; default: all")
    parser.add_argument("--small", action="store_true", help="use small sizes, to check values only")
    options = parser.parse_args()
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_x64", True)
    print("| ms | jacfwd | jacrev | forward | reverse | auto | best of the others / auto | relative error |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for name, case in cases(options.small).items():
        if not options.names or name in options.names:
            times = row(case)
            error = times.pop("error")
            ratio = min(time for way, time in times.items() if way != "auto") / times["auto"]
            cells = [f"{time:.2f}" for time in times.values()]
            print(f"| {name} | {' | '.join(cells)} | {ratio:.1f} | {error:.0e} |", flush=True)


if __name__ == "__main__":
    main()
