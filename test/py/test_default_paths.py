"""Runs each command and public name as a user does: in a new process, on IREE, for this machine's CPU.

The tables of commands are in `cases/default_paths.py`. The fast tests check that the tables are complete. The tests
marked `more` run the commands.
"""

import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import numpy as np
import onnx
import pytest
from cases.default_paths import COMMANDS, FILES, GROUPS, OTHERWISE, VALUES
from cases.default_snippets import OF_EAGER, OF_RUNTIME, OF_TIDUC, OF_TRAINING, SCRIPTS, SETUP
from harness.example_files import EXAMPLES
from safetensors.numpy import save_file

from tiduc.cli import COMMANDS as SECTIONS
from tiduc.cli import tiduc

PREPARED = (
    "compile f.mlir -o f.vmfb",
    "import digits.onnx --weights imported.npz -o imported.mlir",
    "train-step digits.onnx --loss softmax-cross-entropy --optimizer adam --state step_state.npz -o step.vmfb",
    "train-step digits.onnx --loss softmax-cross-entropy --lora 6 --state lora_state.npz -o lora.mlir",
    "train-step batch.mlir --train w --infer batch.mlir -o batch_step.vmfb",
    "grad mlp_f32.mlir --value --wrt 0,1,2,3,4,5 -o gradient.mlir",
    f"compile gradient.mlir {EXAMPLES / 'sgd_mlp.mlir'} -o train",
)
"""Commands that create the files that cannot be written directly."""

NAMES = [name for section in SECTIONS.values() for name in section]


def options(name: str) -> dict[str, bool]:
    """Maps each option of a command, in long form, to whether it takes a value. A switch has an entry for each form."""
    command = tiduc.get_command(click.Context(tiduc), name)
    assert command is not None
    found = [each for each in command.params if isinstance(each, click.Option)]
    return {form: not each.is_flag for each in found for form in (each.opts[-1], *each.secondary_opts)}


def lines() -> Iterator[tuple[str, str]]:
    """Yields pairs of a command and its arguments: one pair without options, and one for each group of its options."""
    for name in NAMES:
        yield name, COMMANDS[name]
        known = options(name)
        for group in GROUPS:
            own = [option for option in group if option in known]
            if own and (name, own[0]) in OTHERWISE:
                yield name, OTHERWISE[name, own[0]].removeprefix(name).strip()
            elif own:
                words = (f"{each} {shlex.quote(VALUES[each])}" if known[each] else each for each in own)
                yield name, f"{COMMANDS[name]} {' '.join(words)}".strip()


def test_the_lines_have_each_option_of_each_command() -> None:
    assert set(COMMANDS) == set(NAMES)
    shown: dict[str, set[str]] = {name: set() for name in NAMES}
    for name, line in lines():
        shown[name] |= {word for word in shlex.split(line) if word.startswith("--")}
        shown[name] |= {"--output"} if " -o " in line else set()
    assert {name: missing for name in NAMES if (missing := options(name).keys() - shown[name])} == {}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fixture: a folder with the files that the command lines read."""
    place = tmp_path_factory.mktemp("paths")
    fill(place)
    return place


def fill(place: Path) -> None:
    """Writes the files that the command lines read. Some of them are written by tiduc commands."""
    (place / "library").mkdir()
    for name, text in FILES.items():
        (place / name).write_text(text)
    (place / "interesting.sh").chmod(0o755)
    for name in ("digits.onnx", "mlp_f32.mlir", "mlp_f32.npz"):
        shutil.copy(EXAMPLES / name, place)
    onnx.save(with_dynamic_batch(), place / "dynamic.onnx")
    write_kinds(place)
    save_file({"w": np.eye(4, dtype=np.float32)}, place / "w.safetensors")
    for name in ("batch_state.npz", "dynamic_state.npz"):
        np.savez(place / name, w=np.ones((3, 2), np.float32))
    np.savez(place / "batches.npz", x=np.ones((8, 3), np.float32), target=np.ones((8, 2), np.float32))
    for line in PREPARED:
        assert run(place, *line.split()).returncode == 0


def with_dynamic_batch() -> Any:
    """An ONNX model with a dynamic batch size. The value of its input `k` must be given at import."""
    x, k = (
        onnx.helper.make_tensor_value_info(*each)
        for each in (("x", onnx.TensorProto.FLOAT, ["batch", 3]), ("k", onnx.TensorProto.INT64, [1]))
    )
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    w = onnx.numpy_helper.from_array(np.ones((3, 2), np.float32), "w")
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "w"], ["p"]),
        onnx.helper.make_node("TopK", ["p", "k"], ["y", "places"]),
    ]
    graph = onnx.helper.make_graph(nodes, "net", [x, k], [y], [w])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    return python(folder, "-m", "tiduc", *words)


@pytest.mark.slow
@pytest.mark.more
@pytest.mark.parametrize("name, line", list(lines()), ids=str)
def test_command_lines(name: str, line: str, folder: Path) -> None:
    ended = run(folder, name, *shlex.split(line))
    assert ended.returncode == 0, ended.stderr.decode()


SNIPPETS = {
    "tiduc": OF_TIDUC,
    "tiduc.runtime": OF_RUNTIME,
    "tiduc.eager": OF_EAGER,
    "tiduc.training": OF_TRAINING,
}


@pytest.mark.parametrize("package", SNIPPETS)
def test_the_snippets_have_each_public_name(package: str) -> None:
    assert set(SNIPPETS[package]) == set(import_module(package).__all__)


@pytest.mark.slow
@pytest.mark.more
@pytest.mark.parametrize(
    "package, name", [(package, name) for package in SNIPPETS for name in SNIPPETS[package]]
)
def test_python(package: str, name: str, folder: Path) -> None:
    if name in ("from_torch", "grad"):
        pytest.importorskip("torch")
    ended = python(folder, "-c", SETUP + SNIPPETS[package][name])
    assert ended.returncode == 0, ended.stderr.decode()


def python(folder: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, stdin=subprocess.DEVNULL)


def test_the_table_has_each_example() -> None:
    assert set(SCRIPTS) == {path.name for path in EXAMPLES.glob("*.py")}


@pytest.mark.slow
@pytest.mark.more
@pytest.mark.parametrize("name", [name for name, how in SCRIPTS.items() if not how.startswith("read:")])
def test_examples(name: str, folder: Path) -> None:
    if name in ("from_torch.py", "potential.py"):
        pytest.importorskip("torch")
    if name in ("in_a_browser.py", "train_in_a_browser.py"):
        pytest.importorskip("ziglang")
    ended = python(folder, str(EXAMPLES / name), *SCRIPTS[name].split())
    assert ended.returncode == 0, ended.stderr.decode()


KINDS = ("tiny.mlir", "tiny.mlirbc", "artifact.mlirbc", "tiny.onnx", "tiny.pt2", "tiny.jaxexport")
"""A file of each format that programs can have. Each file contains the function sum(tanh(x)) of four numbers."""

FURTHER = {
    "batch": "--batch-size 2",
    "export": "imported.npz",
    "jet": "--order 2",
    "reduce": "--test false",
    "run": "--input random",
    "shard": "--mesh d=2",
    "train-step": "--loss none --train *",
    "view": "--format text",
}
READERS = [name for name in NAMES if "--trust" in options(name)]
"""The commands that read program files of all formats."""

WRITERS = [name for name in READERS if name != "run" and "--output" in options(name)]
"""The commands of `READERS` that write a program file. `run` is excluded, because it writes arrays."""


def write_kinds(place: Path) -> None:
    """Writes a program file of each format for which the packages are installed."""
    import jax

    def f(x: Any) -> Any:
        return jax.numpy.sum(jax.numpy.tanh(x))

    exported = jax.export.export(jax.jit(f))(jax.ShapeDtypeStruct((4,), np.float32))
    (place / "tiny.jaxexport").write_bytes(exported.serialize())
    (place / "tiny.mlir").write_text(exported.mlir_module())
    for emit, name in (("bytecode", "tiny.mlirbc"), ("artifact", "artifact.mlirbc")):
        assert run(place, "import", "tiny.mlir", "--emit", emit, "-o", name).returncode == 0
    x, y = (
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", [4]), ("y", []))
    )
    nodes = [
        onnx.helper.make_node("Tanh", ["x"], ["t"]),
        onnx.helper.make_node("ReduceSum", ["t"], ["y"], keepdims=0),
    ]
    graph = onnx.helper.make_graph(nodes, "net", [x], [y])
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8),
        place / "tiny.onnx",
    )
    if find_spec("torch") is not None:
        import torch

        class Net(torch.nn.Module):
            def forward(self, x: Any) -> Any:
                return torch.tanh(x).sum()

        torch.export.save(torch.export.export(Net(), (torch.ones(4),)), place / "tiny.pt2")


@pytest.mark.slow
@pytest.mark.more
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", READERS)
def test_kinds_of_files(name: str, kind: str, folder: Path) -> None:
    if kind == "tiny.pt2":
        pytest.importorskip("torch")
    to = ["-o", f"{kind}.{name}"] if name in WRITERS else []
    ended = run(folder, name, kind, *FURTHER.get(name, "").split(), *to)
    # The function has no weights; `test_shipments.py` and `test_shipments_torch.py` export weights.
    if name == "export":
        assert ended.returncode == 1 and b"the model has no weights" in ended.stderr, ended.stderr.decode()
    else:
        assert ended.returncode == 0, ended.stderr.decode()
