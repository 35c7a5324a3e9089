"""Forces and virial of an interatomic potential written in PyTorch, for a molecular dynamics code.

    python examples/potential.py                             # dynamic numbers of atoms and edges, against PyTorch
    python examples/potential.py --save potential.mlir       # at most 64 atoms and 2048 edges, for on_device/md.c

The potential is a small message-passing network with a pair repulsion. An edge (i, j, shift) says that atom j, moved by
`shift`, is a neighbour of atom i; each pair has two edges. Lengths are in angstrom, energies in electronvolt.
"""

import argparse
from typing import Any

import numpy as np
import torch

import tiduc

CUTOFF = 4.0
INPUTS = ("strain", "positions", "species", "edges", "shifts")


class Potential(torch.nn.Module):
    """The energy of n atoms with e edges, with continuous second derivatives where an edge meets the cutoff."""

    def __init__(self, features: int = 16, waves: int = 8, layers: int = 2, kinds: int = 3) -> None:
        super().__init__()
        self.register_buffer("centres", torch.linspace(1.0, CUTOFF, waves))
        self.embedding = torch.nn.Embedding(kinds + 1, features)
        self.filters = torch.nn.ModuleList(torch.nn.Linear(waves, features) for _ in range(layers))
        self.mixes = torch.nn.ModuleList(torch.nn.Linear(features, features) for _ in range(layers))
        self.readout = torch.nn.Linear(features, 1)

    def forward(
        self,
        strain: torch.Tensor,
        positions: torch.Tensor,
        species: torch.Tensor,
        edges: torch.Tensor,
        shifts: torch.Tensor,
    ) -> torch.Tensor:
        """strain: 3x3, zero; positions: nx3; species: n, 0 for padding; edges: 2xe; shifts: ex3."""
        i, j = edges
        d = positions[j] + shifts - positions[i]
        d = d + d @ (strain + strain.T) / 2
        squares = (d * d).sum(-1)
        envelope = torch.relu(1 - squares / CUTOFF**2) ** 3
        waves = torch.exp(-4 * (squares.sqrt()[:, None] - self.centres) ** 2) * envelope[:, None]
        h = self.embedding(species)
        for read, mix in zip(self.filters, self.mixes, strict=True):
            messages = mix(h)[j] * (read(waves) * envelope[:, None])
            h = h + torch.tanh(torch.zeros_like(h).index_add(0, i, messages))
        learned = (self.readout(h)[:, 0] * (species > 0)).sum()
        return learned + 0.5 * ((1.9 / squares.sqrt()) ** 9 * envelope).sum()


def potential(seed: int = 0, dtype: torch.dtype = torch.float64) -> Potential:
    torch.manual_seed(seed)
    return Potential().to(dtype)


def crystal(cells: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, ...]:
    """The potential's inputs: a displaced cubic lattice of cells**3 atoms with periodic boundaries."""
    random, length = np.random.default_rng(seed), 2.5 * cells
    sites = np.stack(np.meshgrid(*[np.arange(cells)] * 3, indexing="ij"), -1).reshape(-1, 3)
    positions = 2.5 * sites + random.uniform(-0.1, 0.1, sites.shape)
    reach = int(np.ceil(CUTOFF / length))
    images = (
        np.stack(np.meshgrid(*[np.arange(-reach, reach + 1)] * 3, indexing="ij"), -1).reshape(-1, 3) * length
    )
    d = positions[None, :, None] + images - positions[:, None, None]
    squares = (d * d).sum(-1)
    i, j, image = np.nonzero((squares < CUTOFF**2) & (squares > 0))
    arrays = positions, random.integers(1, 4, len(sites)), np.stack([i, j]), images[image].astype(float)
    inputs = [torch.from_numpy(x) for x in (np.zeros((3, 3)), *arrays)]
    return tuple(x.to(dtype) if x.is_floating_point() else x for x in inputs)


def padded(inputs: tuple[torch.Tensor, ...], atoms: int, edges: int) -> tuple[torch.Tensor, ...]:
    """The inputs with this many atoms and edges: more atoms of species 0, and more edges beyond the cutoff."""
    strain, positions, species, pairs, shifts = inputs
    n, e = atoms - len(positions), edges - len(shifts)
    far = torch.full((e, 3), 10 * CUTOFF, dtype=shifts.dtype)
    pad = torch.nn.functional.pad
    return (
        strain,
        pad(positions, (0, 0, 0, n)),
        pad(species, (0, n)),
        pad(pairs, (0, e)),
        torch.cat([shifts, far]),
    )


def forces(
    module: torch.nn.Module, example: tuple[torch.Tensor, ...], dynamic: bool = False
) -> tiduc.Program:
    """(inputs..., seed) -> (energy, forces, virial). The seed is -1: forces and virial are -dE/dx and -dE/dstrain."""
    n, e = torch.export.Dim("n"), torch.export.Dim("e")
    sizes = (None, {0: n}, {0: n}, {1: e}, {0: e}) if dynamic else None
    return tiduc.from_torch(module, example, dynamic_shapes=sizes).vjp(["positions", "strain"])


def expected(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> list[Any]:
    """The results of `forces`, by PyTorch's autograd."""
    strain, positions, *others = (x.clone() for x in inputs)
    energy = module(strain.requires_grad_(), positions.requires_grad_(), *others)
    slopes = torch.autograd.grad(energy, (positions, strain))
    return [energy.detach().numpy(), *(-x.numpy() for x in slopes)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--save", metavar="FILE", help="write the program for at most this many atoms and edges"
    )
    parser.add_argument("--atoms", type=int, default=64)
    parser.add_argument("--edges", type=int, default=2048)
    given = parser.parse_args()
    module = potential()
    if given.save:
        forces(module, padded(crystal(2), given.atoms, given.edges)).save(given.save)
        return
    compiled = forces(module, crystal(2), dynamic=True).compile()
    for cells in (2, 3, 4):
        inputs = crystal(cells, seed=cells)
        results = compiled(*(x.numpy() for x in inputs), np.array(-1.0))
        worst = max(
            np.abs(x - y).max() / np.abs(y).max()
            for x, y in zip(results, expected(module, inputs), strict=True)
        )
        print(
            f"{cells**3} atoms, {len(inputs[-1])} edges: {results[0]:.6f} eV, error below 1e-12: {worst < 1e-12}"
        )


if __name__ == "__main__":
    main()
