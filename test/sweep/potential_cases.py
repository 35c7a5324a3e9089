"""Energies from packages of interatomic potentials, with small random weights, as modules of PyTorch.

Each energy takes (strain, positions, species, edges, shifts), as examples/potential.py does. Packages are imported when
a case is built.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

CUTOFF, KINDS, NEIGHBOURS = 4.0, 3, 18.0
Arrays = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Case:
    """A model of a package. `build` makes the energy in a dtype; `pairs_once` asks for one edge of each pair."""

    package: str
    model: str
    build: Callable[[torch.dtype], torch.nn.Module]
    pairs_once: bool = False

    @property
    def title(self) -> str:
        return f"{self.package}: {self.model}"


class Energy(torch.nn.Module):
    """An energy of strained atoms: a module and a function that calls it."""

    def __init__(self, module: torch.nn.Module, call: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.module, self.call = module, call

    def forward(
        self,
        strain: torch.Tensor,
        positions: torch.Tensor,
        species: torch.Tensor,
        edges: torch.Tensor,
        shifts: torch.Tensor,
    ) -> torch.Tensor:
        deformation = torch.eye(3, dtype=strain.dtype) + (strain + strain.T) / 2
        return self.call(self.module, positions @ deformation, species, edges, shifts @ deformation).sum()


# ---- schnetpack ---------------------------------------------------------------------------------------------


def _schnetpack() -> Any:
    """The package. Version 2.1.1 imports a name that PyTorch 2.13 has removed, and uses it in an annotation only."""
    from typing import TypeVar

    from torch.utils.data import dataloader

    if not hasattr(dataloader, "T_co"):
        dataloader.T_co = TypeVar("T_co", covariant=True)
    import schnetpack

    return schnetpack


def _schnet(kind: str) -> Callable[[torch.dtype], torch.nn.Module]:
    def build(dtype: torch.dtype) -> torch.nn.Module:
        spk = _schnetpack()
        basis, cutoff = spk.nn.GaussianRBF(8, CUTOFF), spk.nn.CosineCutoff(CUTOFF)
        extra = {"lmax": 1} if kind == "SO3net" else {}
        layers = getattr(spk.representation, kind)(
            n_atom_basis=16, n_interactions=2, radial_basis=basis, cutoff_fn=cutoff, **extra
        )
        head = spk.atomistic.Atomwise(16, aggregation_mode=None, per_atom_output_key="energies")
        distances = spk.atomistic.PairwiseDistances()
        return Energy(torch.nn.Sequential(distances, layers, head), call).to(dtype)

    def call(
        module: torch.nn.Module, positions: torch.Tensor, species: Any, edges: Any, shifts: Any
    ) -> torch.Tensor:
        keys = _schnetpack().properties
        inputs = {keys.R: positions, keys.Z: species, keys.offsets: shifts}
        return module(inputs | {keys.idx_i: edges[0], keys.idx_j: edges[1]})["energies"]

    return build


# ---- e3nn and the packages that use it ----------------------------------------------------------------------


class Messages(torch.nn.Module):
    """The message passing network of e3nn's models, with spherical harmonics and a smooth radial basis."""

    def __init__(self) -> None:
        super().__init__()
        from e3nn.nn.models.v2106.gate_points_message_passing import MessagePassing

        hidden = "8x0e + 4x1o + 2x2e"
        self.layers = MessagePassing(
            [f"{KINDS + 1}x0e", hidden, hidden, "1x0e"],
            "1x0e",
            "1x0e + 1x1o + 1x2e",
            [6, 16],
            NEIGHBOURS,
        )
        for layer in self.layers.layers:  # e3nn begins with 0 here, which hides errors
            torch.nn.init.normal_(getattr(layer, "first", layer).alpha.weight)


def _e3nn_call(module: Any, positions: torch.Tensor, species: Any, edges: Any, shifts: Any) -> torch.Tensor:
    from e3nn import o3
    from e3nn.math import soft_one_hot_linspace

    d = positions[edges[1]] + shifts - positions[edges[0]]
    lengths = d.norm(dim=1)
    scalars = soft_one_hot_linspace(lengths, 0.0, CUTOFF, 6, "smooth_finite", cutoff=True) * 6**0.5
    harmonics = o3.spherical_harmonics("1x0e + 1x1o + 1x2e", d, True, normalization="component")
    envelope = torch.relu(1 - (lengths / CUTOFF) ** 2) ** 3
    kinds = torch.nn.functional.one_hot(species, KINDS + 1).to(positions.dtype)
    ones = torch.ones_like(positions[:, :1])
    return module.layers(kinds, ones, *edges, harmonics * envelope[:, None], scalars)


def _e3nn(dtype: torch.dtype) -> torch.nn.Module:
    return Energy(Messages(), _e3nn_call).to(dtype)


def _mace(dtype: torch.dtype) -> torch.nn.Module:
    from e3nn import o3
    from mace.modules import ScaleShiftMACE, interaction_classes

    block = interaction_classes["RealAgnosticResidualInteractionBlock"]
    module = ScaleShiftMACE(
        r_max=CUTOFF,
        num_bessel=6,
        num_polynomial_cutoff=6,
        max_ell=2,
        interaction_cls=block,
        interaction_cls_first=block,
        num_interactions=2,
        num_elements=KINDS,
        hidden_irreps=o3.Irreps("8x0e + 8x1o"),
        MLP_irreps=o3.Irreps("8x0e"),
        atomic_energies=np.array([-1.0, -2.0, -3.0]),
        avg_num_neighbors=NEIGHBOURS,
        atomic_numbers=[1, 6, 8],
        correlation=2,
        gate=torch.nn.functional.silu,
        atomic_inter_scale=1.5,
        atomic_inter_shift=0.5,
    )

    def call(
        module: torch.nn.Module, positions: torch.Tensor, species: Any, edges: Any, shifts: Any
    ) -> torch.Tensor:
        data = {
            "positions": positions,
            "node_attrs": torch.nn.functional.one_hot(species - 1, KINDS).to(positions.dtype),
            "edge_index": edges,
            "shifts": shifts,
            "batch": torch.zeros_like(species),
            "ptr": torch.zeros(2, dtype=torch.int64),
            "cell": torch.zeros(3, 3, dtype=positions.dtype),
        }
        return module(data, compute_force=False)["energy"]

    return Energy(module, call).to(dtype)


def _nequip(kind: str) -> Callable[[torch.dtype], torch.nn.Module]:
    def build(dtype: torch.dtype) -> torch.nn.Module:
        from nequip.utils.global_state import set_global_state

        set_global_state()
        shared = {
            "seed": 0,
            "model_dtype": str(dtype).removeprefix("torch."),
            "r_max": CUTOFF,
            "type_names": ["H", "C", "O"],
            "avg_num_neighbors": NEIGHBOURS,
            "do_derivatives": False,
            "l_max": 1,
        }
        if kind == "NequIP":
            from nequip.model import NequIPGNNModel as Model

            module = Model(num_layers=2, num_features=8, radial_mlp_width=16, **shared)
        else:
            from allegro.model import AllegroModel as Model

            width = {"hidden_layers_depth": 1, "hidden_layers_width": 16}
            module = Model(
                num_layers=2,
                num_scalar_features=16,
                num_tensor_features=4,
                radial_chemical_embed={"_target_": "allegro.nn.TwoBodyBesselScalarEmbed", "num_bessels": 6},
                radial_chemical_embed_dim=16,
                **{f"scalar_embed_mlp_{k}": v for k, v in width.items()},
                **{f"allegro_mlp_{k}": v for k, v in width.items()},
                **{f"readout_mlp_{k}": v for k, v in width.items()},
                **shared,
            )
        return Energy(module.eval(), call)

    def call(
        module: torch.nn.Module, positions: torch.Tensor, species: Any, edges: Any, shifts: Any
    ) -> torch.Tensor:
        from nequip.data import AtomicDataDict as keys

        data = {
            keys.POSITIONS_KEY: positions,
            keys.CELL_KEY: torch.eye(3, dtype=positions.dtype),
            keys.ATOM_TYPE_KEY: species - 1,
            keys.EDGE_INDEX_KEY: edges,
            keys.EDGE_CELL_SHIFT_KEY: shifts,
        }
        return module.model(data)[keys.TOTAL_ENERGY_KEY]

    return build


# ---- torchani -----------------------------------------------------------------------------------------------


def _torchani(dtype: torch.dtype) -> torch.nn.Module:
    import torchani

    module = torchani.arch.simple_ani(
        ["H", "C", "O"],
        "wb97x-631gd",
        radial_cutoff=CUTOFF,
        angular_cutoff=2.8,
        radial_shifts=6,
        angular_shifts=3,
        sections=2,
        strategy="pyaev",
        periodic_table_index=False,
        repulsion=False,
        self_energies={"H": -0.5, "C": -1.0, "O": -2.0},
    )

    def call(module: Any, positions: torch.Tensor, species: Any, edges: Any, shifts: Any) -> torch.Tensor:
        from torchani.neighbors import Neighbors

        d = positions[edges[0]] - positions[edges[1]] - shifts
        neighbours = Neighbors(edges, d.norm(dim=1), d)
        kinds = (species - 1)[None]
        return module.compute_from_neighbors(kinds, positions[None], neighbours).energies

    return Energy(module, call).to(dtype)


CASES = (
    Case("schnetpack", "SchNet", _schnet("SchNet")),
    Case("schnetpack", "PaiNN", _schnet("PaiNN")),
    Case("schnetpack", "SO3net", _schnet("SO3net")),
    Case("e3nn", "MessagePassing", _e3nn),
    Case("mace-torch", "ScaleShiftMACE", _mace),
    Case("nequip", "NequIPGNNModel", _nequip("NequIP")),
    Case("nequip-allegro", "AllegroModel", _nequip("Allegro")),
    Case("torchani", "simple_ani", _torchani, pairs_once=True),
)
