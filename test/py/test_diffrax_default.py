"""Differentiates diffrax's `diffeqsolve` with default options on IREE, by `tiduc.from_jax` and from exported files.

With its default adjoint, `diffeqsolve` calls back into Python to raise exceptions, and its loop has a custom VJP.
`jax.export` cannot write callbacks to a file, so the exported solve has `throw=False`.
"""

import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from harness.compare import compare

pytestmark = pytest.mark.slow  # IREE compiles each Hessian-vector product in 20 to 30 s
importlib.import_module("diffrax")

SOLVE = """
import diffrax
import jax.numpy as jnp


def solve(y, p, **options):
    term = diffrax.ODETerm(lambda t, y, p: jnp.stack([y[1], p[0] * (1 - y[0] ** 2) * y[1] - p[1] * y[0]]))
    return jnp.sum(diffrax.diffeqsolve(term, diffrax.Tsit5(), 0.0, 1.0, 0.1, y, p, **options).ys ** 2)
"""
POINT = np.array([1.0, 0.3]), np.array([1.2, 0.9])
DIRECTION = np.array([0.4, -0.7]), np.array([0.3, 0.5])
IMPORTED = f"""{SOLVE}
import numpy as np
import tiduc

point = [np.array(x, np.float32) for x in {[x.tolist() for x in POINT]}]
direction = [np.array(x, np.float32) for x in {[x.tolist() for x in DIRECTION]}]
program = tiduc.from_jax(solve, *point)
results = [
    *program.grad([0, 1], value=True).compile(target="cpu")(*point),
    *program.hvp([0, 1]).compile(target="cpu")(*point, *direction),
]
np.savez("results.npz", *results)
"""
SAVED = f"""{SOLVE}
import pathlib
import numpy as np
import tiduc

point = [np.ones(2, np.float32)] * 2
pathlib.Path("solve.mlir").write_text(tiduc.from_jax(solve, *point).text)
"""
EXPORTED = f"""{SOLVE}
import pathlib
import jax
import jax.export
import numpy as np

point = [np.ones(2, np.float32)] * 2
exported = jax.export.export(jax.jit(lambda y, p: solve(y, p, throw=False)))(*point)
pathlib.Path("solve.jaxexport").write_bytes(exported.serialize())
"""


@pytest.fixture(scope="module")
def expected() -> list[Any]:
    """Fixture: JAX's value, gradient and Hessian-vector product in f64."""
    given: dict[str, Any] = {}
    exec(SOLVE, given)
    diffrax = importlib.import_module("diffrax")
    solve: Callable[..., Any] = given["solve"]

    def direct(y: Any, p: Any) -> Any:
        return solve(y, p, adjoint=diffrax.DirectAdjoint(), max_steps=16)

    with jax.enable_x64(True):
        value = jax.jit(solve)(*POINT)
        gradient, second = jax.jit(lambda *x: jax.jvp(jax.grad(direct, (0, 1)), x, DIRECTION))(*POINT)
        return [np.asarray(x) for x in (value, *gradient, *second)]


def run(folder: Path, *command: str) -> None:
    """Runs Python with these arguments. Removes environment variables that change how equinox reports errors."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("EQX_")}
    done = subprocess.run([sys.executable, *command], cwd=folder, env=plain, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def results(path: Path) -> Sequence[Any]:
    with np.load(path) as stored:
        return [stored[name] for name in stored.files]


def test_imported(tmp_path: Path, expected: list[Any]) -> None:
    run(tmp_path, "-c", IMPORTED)
    compare(results(tmp_path / "results.npz"), expected, 1e-4)


@pytest.mark.parametrize(("file", "script"), [("solve.mlir", SAVED), ("solve.jaxexport", EXPORTED)])
def test_files(tmp_path: Path, expected: list[Any], file: str, script: str) -> None:
    """From an exported file, the command line computes JAX's value, gradient and Hessian-vector product.

    The Hessian-vector product was once wrong, because it mixed the values of two iterations.
    """
    run(tmp_path, "-c", script)
    point, direction = (
        [word for x in part for word in ("--input", ",".join(map(str, x)))] for part in (POINT, DIRECTION)
    )
    run(tmp_path, "-m", "tiduc", "grad", file, "--value", "-o", "gradient.mlir")
    run(tmp_path, "-m", "tiduc", "run", "gradient.mlir", *point, "-o", "gradient.npz")
    run(tmp_path, "-m", "tiduc", "hvp", file, "-o", "second.mlir")
    run(tmp_path, "-m", "tiduc", "run", "second.mlir", *point, *direction, "-o", "second.npz")
    found = *results(tmp_path / "gradient.npz"), *results(tmp_path / "second.npz")
    compare(found, expected, 1e-4)
