"""Runs one model of `potential_cases.py` by tiduc and by PyTorch."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from potential_cases import CASES, CUTOFF, Arrays, Case
from potential_outcome import Parts, Record, judged, why

import tiduc

DTYPES = {"f64": torch.float64, "f32": torch.float32}
FEW = "positions", "strain"


def crystal(cells: int, seed: int, dtype: torch.dtype, pairs_once: bool) -> Arrays:
    """Strain, positions, species, edges and shifts of a displaced cubic lattice with periodic boundaries."""
    random, length = np.random.default_rng(seed), 2.5 * cells
    sites = np.stack(np.meshgrid(*[np.arange(cells)] * 3, indexing="ij"), -1).reshape(-1, 3)
    positions = 2.5 * sites + random.uniform(-0.1, 0.1, sites.shape)
    reach = int(np.ceil(CUTOFF / length))
    steps = np.arange(-reach, reach + 1)
    images = np.stack(np.meshgrid(steps, steps, steps, indexing="ij"), -1).reshape(-1, 3) * length
    d = positions[None, :, None] + images - positions[:, None, None]
    squares = (d * d).sum(-1)
    i, j, image = np.nonzero((squares < CUTOFF**2) & (squares > 0))
    shifts = images[image]
    if pairs_once:
        ahead = [(a, *s) < (b, *-s) for a, b, s in zip(i, j, shifts, strict=True)]
        i, j, shifts = i[ahead], j[ahead], shifts[ahead]
    floats = [torch.from_numpy(x).to(dtype) for x in (np.zeros((3, 3)), positions, shifts)]
    species = torch.from_numpy(random.integers(1, 4, len(sites)))
    return floats[0], floats[1], species, torch.from_numpy(np.stack([i, j])), floats[2]


def built(case: Case, dtype: torch.dtype) -> torch.nn.Module:
    torch.manual_seed(0)
    torch.set_default_dtype(dtype if case.package != "schnetpack" else torch.float32)
    module = case.build(dtype)
    torch.set_default_dtype(dtype)
    return module


def vectors(inputs: Arrays) -> list[torch.Tensor]:
    """A direction for (energy, positions, strain)."""
    energy = torch.tensor(0.7, dtype=inputs[0].dtype)
    return [energy, *(torch.cos(1.0 + x.flatten().cumsum(0) + torch.arange(x.numel())).reshape(x.shape).to(x.dtype)
                      for x in (inputs[1], inputs[0]))]  # fmt: skip


def expected(module: torch.nn.Module, inputs: Arrays, along: list[torch.Tensor]) -> Parts:
    """The results of all programs, by PyTorch's autograd. Forces and virial are the gradient times -1."""
    strain, positions = inputs[0].clone().requires_grad_(), inputs[1].clone().requires_grad_()
    energy = module(strain, positions, *inputs[2:])
    slopes = torch.autograd.grad(energy, (positions, strain), create_graph=True)
    hvp = torch.autograd.grad(slopes, (positions, strain), along[1:], retain_graph=True)
    weights = list(module.parameters())
    loss = along[0] * energy + sum((x * y).sum() for x, y in zip(along[1:], slopes, strict=True))
    training = torch.autograd.grad(loss, weights, allow_unused=True, materialize_grads=True)
    return _parts(energy, slopes, hvp, training)


def _parts(energy: Any, slopes: Any, hvp: Any, training: Any) -> Parts:
    def arrays(xs: Any) -> list[Any]:
        return [x.detach().numpy() if isinstance(x, torch.Tensor) else x for x in xs]

    first = {"energy": arrays([energy]), "forces": arrays(slopes[:1]), "virial": arrays(slopes[1:])}
    return {
        "first": first,
        "hvp": {"Hessian product": arrays(hvp)},
        "training": {"training": arrays(training)},
    }


def imported(module: torch.nn.Module, inputs: Arrays) -> tuple[Any, bool]:
    """The energy as a program, and whether its numbers of atoms and edges are dynamic."""
    n, e = torch.export.Dim("n", min=2), torch.export.Dim("e", min=2)
    try:
        sizes = (None, {0: n}, {0: n}, {1: e}, {0: e})
        return tiduc.from_torch(module, inputs, lift_constants=True, dynamic_shapes=sizes), True
    except tiduc.TiducError:
        return tiduc.from_torch(module, inputs, lift_constants=True), False


@dataclass(frozen=True)
class Prepared:
    """A model as a program, its inputs, a direction, and the package's results in f64 and, for f32, in f32."""

    module: torch.nn.Module
    energy: Any
    dynamic: bool
    inputs: Arrays
    along: list[torch.Tensor]
    exact: Parts
    narrow: Parts | None


@lru_cache(1)
def prepared(title: str, dtype: str) -> Prepared:
    """Imports a model and runs it by PyTorch. The last result is kept, because each engine asks for it."""
    case = next(each for each in CASES if each.title == title)
    wide, module = built(case, torch.float64), built(case, DTYPES[dtype])
    wide.load_state_dict(module.state_dict())
    inputs = crystal(2, 0, DTYPES[dtype], case.pairs_once)
    energy, dynamic = imported(module, inputs)
    if dynamic:
        inputs = crystal(3, 1, DTYPES[dtype], case.pairs_once)
    along = vectors(inputs)
    narrow = expected(module, inputs, along) if dtype == "f32" else None
    torch.set_default_dtype(torch.float64)
    exact = expected(wide, tuple(_wide(x) for x in inputs), [_wide(x) for x in along])
    return Prepared(module, energy, dynamic, inputs, along, exact, narrow)


def record(title: str, dtype: str, engine: str) -> Record:
    torch.set_num_threads(1)
    try:
        case = prepared(title, dtype)
    except ImportError as error:
        return {"outcome": "not installed", "why": why(error)}
    except tiduc.TiducError as error:
        return {"outcome": "refused", "why": why(error)}
    return {"dynamic": case.dynamic} | judged(_programs(case, engine), case.exact, case.narrow, dtype)


def _wide(x: torch.Tensor) -> torch.Tensor:
    return x.double() if x.is_floating_point() else x


def _programs(case: Prepared, engine: str) -> Any:
    """For each part, a function that compiles and runs its program."""
    energy, along = case.energy, case.along
    given = [x.numpy() for x in case.inputs]
    of_energy = np.dtype("f8" if "f64" in str(energy.outputs[0].type) else "f4")  # NequIP sums atoms in f64
    one, seed = np.ones((), of_energy), along[0].numpy().astype(of_energy)
    weights = [name for name, _ in case.module.named_parameters()]
    forces = energy.vjp(FEW)

    def first() -> Any:
        energy_, *slopes = forces.compile(engine=engine)(*forces.arguments(*given, one))
        return _parts(energy_, slopes, (), ())["first"]

    def hvp() -> Any:
        program = energy.hvp(FEW)
        return {
            "Hessian product": program.compile(engine=engine)(*program.arguments(*given, *_of(along[1:])))
        }

    def training() -> Any:
        program = forces.vjp(weights)
        results = program.compile(engine=engine)(*program.arguments(*given, one, seed, *_of(along[1:])))
        return {"training": results[3:]}

    return {"first": first, "hvp": hvp, "training": training}


def _of(arrays: list[torch.Tensor]) -> list[Any]:
    return [x.numpy() for x in arrays]
