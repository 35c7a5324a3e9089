"""Runs one model of `potential_jax_cases.py` by tiduc and by JAX."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from potential_jax_cases import JAX_CASES, JaxCase, system
from potential_outcome import Parts, Record, judged, why

import tiduc

DTYPES = {"f64": jnp.float64, "f32": jnp.float32}


@dataclass(frozen=True)
class Prepared:
    """A model as a program, its inputs, a direction, and the package's results in f64 and, for f32, in f32."""

    energy: Any
    given: Any
    along: list[Any]
    exact: Parts
    narrow: Parts | None


@lru_cache(1)
def prepared(title: str, dtype: str) -> Prepared:
    """Imports a model and runs it by JAX. The last result is kept, because each engine asks for it.

    In f32, JAX traces the model without 64-bit types, as it does by default.
    """
    case = next(each for each in JAX_CASES if each.title == title)
    with jax.enable_x64(dtype == "f64"):
        instance, strain, positions, along = _built(case, DTYPES[dtype])
        given = instance.weights, strain, positions, instance.neighbours.idx
        energy = tiduc.from_jax(instance.strained, *given)
        narrow = expected(instance, given, along) if dtype == "f32" else None
    with jax.enable_x64(True):
        wide = instance if dtype == "f64" else _built(case, jnp.float64)[0]
        exact = expected(wide, *jax.tree.map(_wide, (given, along)))
    return Prepared(energy, given, along, exact, narrow)


def record(title: str, dtype: str, engine: str) -> Record:
    try:
        case = prepared(title, dtype)
    except ImportError as error:
        return {"outcome": "not installed", "why": why(error)}
    except tiduc.TiducError as error:
        return {"outcome": "refused", "why": why(error)}
    return judged(_programs(case.energy, case.given, case.along, engine), case.exact, case.narrow, dtype)


def _wide(x: Any) -> Any:
    """An array of f64 for an array of f32."""
    x = np.asarray(x)
    return jnp.asarray(x.astype(np.float64) if x.dtype.kind == "f" else x)


def _built(case: JaxCase, dtype: Any) -> tuple[Any, Any, Any, list[Any]]:
    """The instance, a strain of zero, positions, and a direction for (energy, positions, strain)."""
    displacement, box, positions = system(dtype, 1)
    instance = case.build(displacement, box, positions)
    strain = jnp.zeros((3, 3), dtype)
    shapes = positions.shape, strain.shape
    moves = [jnp.asarray(np.cos(1.0 + np.arange(np.prod(s)).reshape(s)), dtype) for s in shapes]
    return instance, strain, positions, [jnp.asarray(0.7, dtype), *moves]


def expected(instance: Any, given: Any, along: list[Any]) -> Parts:
    """The results of all programs, by JAX."""

    @jax.jit
    def results(weights: Any, strain: Any, positions: Any, pairs: Any) -> Any:
        def energy(w: Any, x: Any, s: Any) -> Any:
            return instance.strained(w, s, x, pairs)

        slopes, moves = jax.grad(energy, (1, 2)), tuple(along[1:])
        y, (forces, virial) = energy(weights, positions, strain), slopes(weights, positions, strain)
        hvp = jax.jvp(lambda x, s: slopes(weights, x, s), (positions, strain), moves)[1]

        # Forward over reverse mode, because two reverse modes compute more values at the padding of a neighbour list.
        toward = jax.grad(energy)
        slope, mixed = jax.jvp(lambda x, s: toward(weights, x, s), (positions, strain), moves)
        return y, forces, virial, hvp, jax.tree.map(lambda d, m: along[0] * d + m, slope, mixed)

    y, forces, virial, hvp, training = results(*given)
    first = {"energy": [y], "forces": [forces], "virial": [virial]}
    weights = jax.tree.leaves(training)
    return {"first": first, "hvp": {"Hessian product": list(hvp)}, "training": {"training": weights}}


def _programs(energy: Any, given: Any, along: list[Any], engine: str) -> Any:
    """For each part, a function that compiles and runs its program."""
    arrays = [np.asarray(x) for x in jax.tree.leaves(given)]
    moves = [np.asarray(x) for x in along]
    one = np.ones((), arrays[-2].dtype)
    names = [port.name for port in energy.inputs]
    *weights, strain, positions, _ = names
    few = [positions, strain]
    forces = energy.vjp(few)

    def first() -> Any:
        y, x, s = forces.compile(engine=engine)(*arrays, one)
        return {"energy": [y], "forces": [x], "virial": [s]}

    def hvp() -> Any:
        return {"Hessian product": energy.hvp(few).compile(engine=engine)(*arrays, *moves[1:])}

    def training() -> Any:
        return {"training": forces.vjp(weights).compile(engine=engine)(*arrays, one, *moves)[3:]}

    return {"first": first, "hvp": hvp, "training": training}
