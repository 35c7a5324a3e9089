"""Energies of JAX MD, as functions of (weights, strain, positions, neighbours)."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

CUTOFF, HALO, LENGTH = 3.0, 0.4, 2.5


@dataclass(frozen=True)
class JaxCase:
    """A model of JAX MD. `build` takes displacements, a box and positions, and gives an `Instance`."""

    model: str
    build: Callable[[Any, Any, Any], "Instance"]
    package: str = "jax-md"

    @property
    def title(self) -> str:
        return f"{self.package}: {self.model}"


@dataclass(frozen=True)
class Instance:
    """An energy of (weights, positions, neighbours, perturbation), its weights, and a neighbour list."""

    energy: Callable[..., Any]
    weights: Any
    neighbours: Any

    def strained(self, weights: Any, strain: Any, positions: Any, pairs: Any) -> Any:
        """The energy of strained atoms; `pairs` are the indices of the neighbour list."""
        deformation = jnp.eye(3, dtype=positions.dtype) + (strain + strain.T) / 2
        return self.energy(weights, positions, replace(self.neighbours, idx=pairs), deformation)


def _pairs(name: str, weights: dict[str, float]) -> JaxCase:
    """A pair potential, whose numbers are the weights."""

    def build(displacement: Any, box: Any, positions: Any) -> Instance:
        from jax_md import energy

        make = getattr(energy, f"{name}_neighbor_list")
        options = {"dr_threshold": HALO, "r_onset": 2.5 / 2.2, "r_cutoff": CUTOFF / 2.2}
        if name == "morse":
            options |= {"r_onset": 2.5, "r_cutoff": CUTOFF}
        neighbours, _ = make(displacement, box, **{**weights, **options})

        def of(given: Any, x: Any, near: Any, deformation: Any) -> Any:
            if name == "lennard_jones":  # the cutoff is in units of sigma, which stays a number
                given = {"sigma": 2.2, **given}
            return make(displacement, box, **{**given, **options})[1](
                x, neighbor=near, perturbation=deformation
            )

        trained = {k: jnp.asarray(v, positions.dtype) for k, v in weights.items() if k != "sigma"}
        return Instance(of, trained, neighbours.allocate(positions))

    return JaxCase(name, build)


def _stillinger_weber(displacement: Any, box: Any, positions: Any) -> Instance:
    from jax_md import energy, partition

    options = {"cutoff": CUTOFF, "sigma": 1.6, "dr_threshold": HALO, "format": partition.Dense}
    make = energy.stillinger_weber_neighbor_list
    neighbours, _ = make(displacement, box, **options)

    def of(given: Any, x: Any, near: Any, deformation: Any) -> Any:
        return make(displacement, box, **given, **options)[1](x, near, perturbation=deformation)

    weights = {"epsilon": jnp.asarray(2.0, positions.dtype), "lam": jnp.asarray(21.0, positions.dtype)}
    return Instance(of, weights, neighbours.allocate(positions))


def _behler_parrinello(displacement: Any, box: Any, positions: Any) -> Instance:
    from flax import nnx
    from jax_md import energy

    neighbours, function = energy.behler_parrinello_neighbor_list(
        displacement,
        box,
        key=jax.random.PRNGKey(0),
        mlp_sizes=(8, 8),
        sym_kwargs={"cutoff_distance": CUTOFF},
        dr_threshold=HALO,
    )
    graph, state = nnx.split(function.model)

    def of(given: Any, x: Any, near: Any, deformation: Any) -> Any:
        return nnx.merge(graph, given)(x, near, perturbation=deformation)

    weights = jax.tree.map(lambda w: jnp.asarray(w, positions.dtype), state)
    return Instance(of, weights, neighbours.allocate(positions))


def _nequip(displacement: Any, box: Any, positions: Any) -> Instance:
    from jax_md import energy
    from jax_md._nn import nequip

    settings = nequip.default_config()
    settings.r_max, settings.n_neighbors = CUTOFF, 10.0
    settings.graph_net_steps, settings.sh_irreps, settings.hidden_irreps = 2, "1x0e + 1x1o", "8x0e + 4x1o"
    settings.num_basis, settings.radial_net_n_hidden, settings.n_elements = 6, 16, 3
    settings.shift, settings.scale = 0.5, 1.5
    kinds = jnp.asarray(np.eye(3)[np.arange(len(positions)) % 3], positions.dtype)
    neighbours, start, of_kinds = energy.nequip_neighbor_list(displacement, box, settings, kinds)
    near = neighbours.allocate(positions)

    def of(given: Any, x: Any, near: Any, deformation: Any) -> Any:
        return of_kinds(given, x, near, perturbation=deformation)

    weights = jax.jit(start)(jax.random.PRNGKey(0), positions, near)
    return Instance(of, jax.tree.map(lambda w: jnp.asarray(w, positions.dtype), weights), near)


JAX_CASES = (
    _pairs("lennard_jones", {"sigma": 2.2, "epsilon": 0.7}),
    _pairs("morse", {"sigma": 2.4, "epsilon": 0.7, "alpha": 2.0}),
    JaxCase("stillinger_weber", _stillinger_weber),
    JaxCase("behler_parrinello", _behler_parrinello),
    JaxCase("nequip", _nequip),
)


def system(dtype: Any, seed: int) -> tuple[Any, Any, Any]:
    """Displacements, box and positions of 27 atoms on a displaced cubic lattice with periodic boundaries."""
    from jax_md import space

    random, length = np.random.default_rng(seed), 3 * LENGTH
    sites = np.stack(np.meshgrid(*[np.arange(3)] * 3, indexing="ij"), -1).reshape(-1, 3)
    positions = LENGTH * sites + random.uniform(-0.1, 0.1, sites.shape) + 0.2
    displacement, _ = space.periodic(length)
    return displacement, length, jnp.asarray(positions, dtype)
