"""Runs one model of `potential_jax_cases.py` by tiduc and by JAX."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from potential_jax_cases import JAX_CASES, JaxCase, system
from potential_outcome import Parts, Record, judged, why

import tiduc

DTYPES = {"f64": jnp.float64, "f32": jnp.float32}


def record(title: str, dtype: str, engine: str) -> Record:
    """The outcome of a model. In f32, JAX traces the model without 64-bit types, as it does by default."""
    case = next(each for each in JAX_CASES if each.title == title)
    try:
        with jax.enable_x64(dtype == "f64"):
            instance, strain, positions, along = _built(case, DTYPES[dtype])
            pairs = instance.neighbours.idx
            given = instance.weights, strain, positions, pairs
            energy = tiduc.from_jax(instance.strained, *given)
            narrow = expected(instance, given, along)
    except ImportError as error:
        return {"outcome": "not installed", "why": why(error)}
    except tiduc.TiducError as error:
        return {"outcome": "refused", "why": why(error)}
    programs = _programs(energy, given, along, engine)
    with jax.enable_x64(True):
        wide, *_ = _built(case, jnp.float64)
        exact = expected(wide, *jax.tree.map(_wide, (given, along)))
    return judged(programs, exact, narrow, dtype)


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
    weights, strain, positions, pairs = given

    def energy(w: Any, x: Any, s: Any) -> Any:
        return instance.strained(w, s, x, pairs)

    slopes = jax.grad(energy, (1, 2))
    y, (forces, virial) = energy(weights, positions, strain), slopes(weights, positions, strain)
    moves = tuple(along[1:])
    hvp = jax.jvp(lambda x, s: slopes(weights, x, s), (positions, strain), moves)[1]

    # Forward over reverse mode, because two reverse modes compute more values at the padding of a neighbour list.
    toward = jax.grad(energy)
    slope, mixed = jax.jvp(lambda x, s: toward(weights, x, s), (positions, strain), moves)
    training = jax.tree.leaves(jax.tree.map(lambda d, m: along[0] * d + m, slope, mixed))
    first = {"energy": [y], "forces": [forces], "virial": [virial]}
    return {"first": first, "hvp": {"Hessian product": list(hvp)}, "training": {"training": training}}


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
