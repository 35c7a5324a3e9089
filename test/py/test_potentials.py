"""Interatomic potentials: forces, virial, Hessian-vector products and training on forces, compared with PyTorch's
autograd.

The potential is that of examples/potential.py, in f64 and with dynamic numbers of atoms and edges.
"""

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness.compare import compare
from harness.example_files import EXAMPLES, script
from harness.static_libraries import run_library, run_thread_sanitizer

import tiduc
from tiduc.backends.backend import Options
from tiduc.backends.iree.static.library import compile_library

torch = pytest.importorskip("torch")
N, E = torch.export.Dim("n"), torch.export.Dim("e")
SIZES = (None, {0: N}, {0: N}, {1: E}, {0: E})
FEW = "strain", "positions"


@pytest.fixture(scope="module")
def md() -> Any:
    return script("potential")


@pytest.fixture(scope="module")
def energy(md: Any) -> Any:
    """The energy as a model with dynamic sizes. The weights are inputs of the model."""
    return tiduc.from_torch(md.potential(), md.crystal(2), lift_constants=True, dynamic_shapes=SIZES)


def _arrays(inputs: Any) -> list[Any]:
    return [x.detach().numpy() for x in inputs]


def _slopes(module: Any, inputs: Any, create_graph: bool = False) -> tuple[Any, Any]:
    """The strain and positions as leaf tensors, and a tuple of the energy and its gradients toward strain and
    positions.
    """
    floats = [x.clone().requires_grad_() for x in inputs[:2]]
    y = module(*floats, *inputs[2:])
    return floats, (y, *torch.autograd.grad(y, floats, create_graph=create_graph))


def _expected_padded(md: Any, inputs: Any, atoms: int) -> list[Any]:
    """PyTorch's energy, forces and virial of the inputs without padding.

    The forces are padded with zeros to `atoms` rows.
    """
    energy, forces, virial = md.expected(md.potential(), inputs)
    return [energy, np.pad(forces, ((0, atoms - len(forces)), (0, 0))), virial]


def _check(program: Any, arguments: Callable[[int], Any], wanted: Callable[[int], Any], engine: str) -> None:
    """Compares the program's results with the wanted ones at three sizes, but at two sizes on XLA, which compiles the
    program for each size.
    """
    compiled = program.compile(engine=engine)
    for cells in (2, 3, 4) if engine == "iree" else (2, 3):
        compare(compiled(*arguments(cells)), wanted(cells), 1e-11, f"{cells} cells")


ENGINES = pytest.mark.parametrize("engine", ["xla", pytest.param("iree", marks=pytest.mark.more)])


@pytest.mark.torch
@ENGINES
def test_forces_and_virial(md: Any, engine: str) -> None:
    """The VJP of the energy with the cotangent -1 gives PyTorch's forces and virial. The program has dynamic sizes."""
    module = md.potential()
    program = md.forces(module, md.crystal(2), dynamic=True)
    assert "?x3xf64" in str(program.signature)
    _check(
        program,
        lambda cells: [*_arrays(md.crystal(cells, cells)), np.array(-1.0)],
        lambda cells: md.expected(module, md.crystal(cells, cells)),
        engine,
    )


@pytest.mark.torch
@ENGINES
def test_hessian_vector_products(md: Any, energy: Any, engine: str) -> None:
    module = md.potential()

    def along(cells: int) -> list[Any]:
        return [torch.cos(1.0 + x.cumsum(0)) for x in md.crystal(cells, cells)[:2]]

    def wanted(cells: int) -> list[Any]:
        floats, (_, *slopes) = _slopes(module, md.crystal(cells, cells), create_graph=True)
        return _arrays(torch.autograd.grad(slopes, floats, along(cells)))

    program = energy.hvp(FEW)
    _check(
        program,
        lambda cells: program.arguments(*_arrays(md.crystal(cells, cells)), *_arrays(along(cells))),
        wanted,
        engine,
    )


def _loss(md: Any, module: Any, cells: int) -> tuple[Any, list[Any]]:
    """A loss of energy, forces and virial, and the reference data to which the loss compares them."""
    inputs = md.crystal(cells, cells)
    given = [torch.sin(torch.arange(x.numel(), dtype=x.dtype)).reshape(x.shape) for x in inputs[:2]]
    _, (y, virial, forces) = _slopes(module, inputs, create_graph=True)
    loss = (y - 1) ** 2 + ((virial - given[0]) ** 2).sum() + ((forces - given[1]) ** 2).sum()
    return loss, [np.array(1.0), *_arrays(given)]


LOSS = """func.func @main(%y: tensor<f64>, %s: tensor<3x3xf64>, %f: tensor<?x3xf64>,
                  %y0: tensor<f64>, %s0: tensor<3x3xf64>, %f0: tensor<?x3xf64>) -> tensor<f64> {
  %z = stablehlo.constant dense<0.0> : tensor<f64>
  %a = stablehlo.subtract %y, %y0 : tensor<f64>
  %b = stablehlo.subtract %s, %s0 : tensor<3x3xf64>
  %c = stablehlo.subtract %f, %f0 : tensor<?x3xf64>
  %aa = stablehlo.multiply %a, %a : tensor<f64>
  %bb = stablehlo.multiply %b, %b : tensor<3x3xf64>
  %cc = stablehlo.multiply %c, %c : tensor<?x3xf64>
  %d = stablehlo.reduce(%bb init: %z) applies stablehlo.add across dimensions = [0, 1]
    : (tensor<3x3xf64>, tensor<f64>) -> tensor<f64>
  %e = stablehlo.reduce(%cc init: %z) applies stablehlo.add across dimensions = [0, 1]
    : (tensor<?x3xf64>, tensor<f64>) -> tensor<f64>
  %0 = stablehlo.add %aa, %d : tensor<f64>
  %1 = stablehlo.add %0, %e : tensor<f64>
  return %1 : tensor<f64>
}"""


@pytest.mark.torch
@ENGINES
def test_gradient_of_a_loss_of_forces(md: Any, energy: Any, engine: str) -> None:
    """The program of forces can be differentiated again: its VJP with respect to the weights equals PyTorch's gradient
    of a loss of forces.
    """
    module = md.potential()
    parameters = [name for name, _ in module.named_parameters()]
    forces = energy.vjp(FEW)
    twice = forces.vjp(parameters)

    def arguments(cells: int) -> Any:
        inputs = _arrays(md.crystal(cells, cells))
        _, results = _slopes(module, md.crystal(cells, cells))
        _, data = _loss(md, module, cells)
        residuals = [2 * (x.detach().numpy() - y) for x, y in zip(results, data, strict=True)]
        return twice.arguments(*inputs, np.array(1.0), *residuals)

    def wanted(cells: int) -> list[Any]:
        _, results = _slopes(module, md.crystal(cells, cells))
        loss, _ = _loss(md, module, cells)
        return [*_arrays(results), *_arrays(torch.autograd.grad(loss, list(module.parameters())))]

    _check(twice, arguments, wanted, engine)


@pytest.mark.torch
@ENGINES
def test_training_on_forces(md: Any, energy: Any, engine: str) -> None:
    """Gradient descent on a loss of energy, virial and forces gives PyTorch's weights.

    One compiled step serves all sizes.
    """
    module = md.potential()
    step = tiduc.train_step(energy.vjp(FEW), tiduc.load(LOSS), "sgd")
    names, trained = [port.name for port in step.inputs], dict(module.named_parameters())
    compiled = step.compile(engine=engine)
    state = {name: np.copy(array) for name, array in step.weights.items()}
    for cells in (2, 3):
        loss, data = _loss(md, module, cells)
        given = [*_arrays(md.crystal(cells, cells)), np.array(1.0), *data, np.float32(2**-10)]
        results = compiled(*state.values(), *given)
        slopes = torch.autograd.grad(loss, list(trained.values()))
        with torch.no_grad():
            for weight, slope in zip(trained.values(), slopes, strict=True):
                weight -= slope / 2**10
        state |= dict(zip([name for name in names if name in trained], results[1:], strict=True))
        compare([results[0]], [loss.detach().numpy()], 1e-11)
        compare([state[name] for name in trained], _arrays(trained.values()), 1e-11)


NO_MEMORY = "".join(
    f"void __wrap_{name}(void) {{ __builtin_trap(); }}\n"
    for name in ("malloc", "calloc", "realloc", "aligned_alloc", "free")
)
"""C functions that abort the program. The linker replaces `malloc` and the other memory functions by them."""


def _static_program(md: Any) -> tuple[Any, Any]:
    """The program that computes forces for 64 atoms and 2048 edges, and inputs with fewer atoms and edges."""
    inputs = md.crystal(2, 5)
    return md.forces(md.potential(), md.padded(inputs, 64, 2048)), inputs


@pytest.mark.more
@pytest.mark.torch
@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
def test_molecular_dynamics_in_c(md: Any, tmp_path: Path) -> None:
    """In the example of molecular dynamics in C, energy is conserved, forces and virial are right, threads do not
    disturb each other, and no memory is allocated.
    """
    program, _ = _static_program(md)
    library = compile_library(program.lower(), "potential", Options("x86_64"))
    (tmp_path / "potential.o").write_bytes(library.kernels)
    (tmp_path / "potential.c").write_text(library.host)
    (tmp_path / "potential.h").write_text(library.header)
    (tmp_path / "no_memory.c").write_text(NO_MEMORY)
    files = str(EXAMPLES / "on_device" / "md.c"), "potential.c", "potential.o", "no_memory.c", "-lm"
    flags = "-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{tmp_path}", "-pthread"
    wraps = [f"-Wl,--wrap={name}" for name in re.findall(r"__wrap_(\w+)", NO_MEMORY)]

    def build(sanitizers: str) -> None:
        command = ["gcc", *flags, f"-fsanitize={sanitizers}", *wraps, *files, "-o", "md"]
        subprocess.run(command, cwd=tmp_path, check=True)

    build("address,undefined")
    told = subprocess.run(["./md"], cwd=tmp_path, check=True, stdout=subprocess.PIPE, text=True).stdout
    first, *systems, last = told.splitlines()
    assert first.endswith("forces and virial agree with differences: 1")
    assert last == "two threads at once give the numbers of one: 1"
    assert len(systems) == 2
    for line in systems:
        before, after, kinetic = (float(word) for word in re.findall(r"-?\d+\.\d+", line))
        assert abs(after - before) < 0.001 * kinetic, line
    build("thread")
    run_thread_sanitizer(tmp_path / "md")


@pytest.mark.more
@pytest.mark.torch
@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
def test_forces_of_the_static_library(md: Any, tmp_path: Path) -> None:
    """For padded inputs, the results of the static library are PyTorch's results for the inputs without padding."""
    program, inputs = _static_program(md)
    arrays = [*_arrays(md.padded(inputs, 64, 2048)), np.array(-1.0)]
    compare(run_library(program, arrays, tmp_path), _expected_padded(md, inputs, 64), 1e-11)


@pytest.mark.torch
def test_padding_changes_nothing(md: Any) -> None:
    """Results for padded inputs equal PyTorch's for the inputs without padding, because edges beyond the cutoff and
    atoms of species 0 only add zeros.
    """
    inputs = md.crystal(2)
    padded = md.padded(inputs, 12, 400)
    compiled = md.forces(md.potential(), padded).compile(engine="xla")
    compare(compiled(*_arrays(padded), np.array(-1.0)), _expected_padded(md, inputs, 12), 1e-11)
