"""The files that the fuzzer mutates: short modules in `.mlir` files of the repository, and files of other formats."""

import functools
import io
import os
import pickle
import re
import subprocess
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile

import numpy as np
from archives import parts_of
from cases.archives import plain

import tiduc
from tiduc.dialect.errors import TiducError
from tiduc.dialect.mlir.emit import artifact, bytecode
from tiduc.runtime.weights import write_weights

ROOT = Path(__file__).resolve().parents[2]
LARGEST = 9000
"""The largest number of characters in a text. The differentiation of longer texts takes seconds."""
_MODELS = ("examples/digits.onnx",)


@functools.cache
def texts() -> tuple[str, ...]:
    """Returns the texts of the modules in the `.mlir` files of the repository, without comments.

    They are in the order of the names of the files.

    Leaves out modules of more than `LARGEST` characters.
    """
    command = ["git", "-C", str(ROOT), "ls-files", "*.mlir"]
    listed = subprocess.run(command, capture_output=True, check=True, text=True).stdout.splitlines()
    collected = []
    for name in sorted(listed):
        for part in re.split(r"^// -----\n", (ROOT / name).read_text(), flags=re.MULTILINE):
            lines = [
                line for line in part.splitlines() if line.strip() and not line.lstrip().startswith("//")
            ]
            text = "\n".join(lines) + "\n"
            if 1 < len(text) <= LARGEST:
                collected.append(text)
    return tuple(collected)


@functools.cache
def binaries() -> tuple[bytes, ...]:
    """Returns three files for every third text. Files that cannot be written are left out.

    They are the bytecode, the portable artifact, and the bytecode of the graphs of the VJP.
    """
    collected = []
    for text in texts()[::3]:
        for writer in (_bytecode, _artifact, _graphs):
            try:
                collected.append(writer(text))
            except TiducError:
                continue
    return tuple(collected)


def _bytecode(text: str) -> bytes:
    with tiduc.context():
        return bytecode(tiduc.parse(text))


def _artifact(text: str) -> bytes:
    with tiduc.context():
        return artifact(tiduc.parse(text))


def _graphs(text: str) -> bytes:
    program = tiduc.load(text).vjp()
    with tiduc.context():
        return bytecode(program.graphs)


@functools.cache
def compiled() -> tuple[bytes, ...]:
    """Compiles small programs to modules (`.vmfb`) for the target `cpu`."""
    programs = [
        "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
        "%0 = stablehlo.sine %x : tensor<4xf32>\nreturn %0 : tensor<4xf32>\n}",
        "func.func @main(%x: tensor<?x3xf32>, %y: tensor<3x2xf32>) -> tensor<?x2xf32> {\n"
        "%0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : "
        "(tensor<?x3xf32>, tensor<3x2xf32>) -> tensor<?x2xf32>\nreturn %0 : tensor<?x2xf32>\n}",
        (ROOT / "examples/newton.mlir").read_text(),
    ]
    return tuple(tiduc.load(text).compile(cached=False).vmfb for text in programs)


@functools.cache
def arrays() -> tuple[tuple[str, bytes], ...]:
    """Files of arrays, as pairs of a suffix and the contents."""
    rng = np.random.default_rng(0)
    named = {
        "x": rng.standard_normal((2, 3)).astype("f4"),
        "i": np.arange(4),
        "b": np.array(True),
        "e": np.zeros((0, 2)),
    }
    collected = []
    with TemporaryDirectory() as folder:
        for suffix in (".npz", ".safetensors", ".irpa"):
            path = os.path.join(folder, f"x{suffix}")
            write_weights(path, named)
            collected.append((suffix, Path(path).read_bytes()))
    compressed, single = io.BytesIO(), io.BytesIO()
    np.savez_compressed(compressed, **named)
    np.save(single, named["x"])
    return (*collected, (".npz", compressed.getvalue()), (".npy", single.getvalue()))


@functools.cache
def models() -> tuple[tuple[str, bytes], ...]:
    """Models from ONNX, JAX and PyTorch, as pairs of a suffix and the contents."""
    collected = [(".onnx", (ROOT / name).read_bytes()) for name in _MODELS]
    for suffix, export in ((".onnx", _onnx), (".jaxexport", _jax), (".pt2", _torch)):
        collected.append((suffix, _in_child(export)))
    return tuple(collected)


def _in_child(export: Callable[[], bytes]) -> bytes:
    """Returns the result of a function, computed in a child process.

    Frameworks start threads, and a process with threads must not fork.
    """
    with TemporaryFile() as file:
        child = os.fork()
        if child == 0:
            try:
                file.write(export())
                file.flush()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        file.seek(0)
        return file.read()


@functools.cache
def archive_parts() -> tuple[dict[str, bytes], ...]:
    """Returns the parts of `.pt2` archives.

    One archive is written without PyTorch. The others are exports of PyTorch.
    """
    exports = _in_child(_archives)  # is empty if PyTorch is not installed
    return plain(), *map(parts_of, pickle.loads(exports) if exports else ())


def _archives() -> bytes:
    """Returns a pickled list of `.pt2` files.

    They have weights, dynamic sizes, control flow, updated buffers, and JVPs.
    """
    import torch
    from cases.torch_exports import exported

    files = []
    for name in (
        "tied weights",
        "a dynamic batch",
        "branches",
        "training",
        "jvp",
        "several results",
        "asserted sizes",
    ):
        written = io.BytesIO()
        torch.export.save(exported(name), written)
        files.append(written.getvalue())
    return pickle.dumps(files)


def _load_libraries() -> None:
    """Imports PyTorch and torch-mlir, so that forked workers need not import them. Does not start threads."""
    archive_parts()
    for name in ("torch.export", "torch_mlir.fx", "tiduc.models.from_torch"):
        with suppress(ImportError):
            import_module(name)


def _onnx() -> bytes:
    from onnx import TensorProto, helper, numpy_helper

    weights = numpy_helper.from_array(np.ones((3, 4), "f4"), "w")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Softmax", ["h"], ["y"], axis=1)]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])
    model = helper.make_model(helper.make_graph(nodes, "small", [x], [y], [weights]))
    return bytes(model.SerializeToString())


def _jax() -> bytes:
    import jax
    import jax.numpy as jnp
    from jax import export

    shape = jax.ShapeDtypeStruct((3,), jnp.float32)
    return bytes(
        export.export(jax.jit(lambda x, w: jnp.tanh(x @ w.reshape(3)).sum()))(shape, shape).serialize()
    )


def _torch() -> bytes:
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh())
    written = io.BytesIO()
    torch.export.save(torch.export.export(model, (torch.ones(2, 3),)), written)
    return written.getvalue()


PREPARE: dict[str, Callable[[], object]] = {
    "text": texts,
    "programs": texts,
    "bytecode": binaries,
    "compiled": compiled,
    "arrays": arrays,
    "models": models,
    "archives": _load_libraries,
    "cache": compiled,
    "commands": arrays,
}
"""For each kind of input, a function that loads the files and libraries for it. It is called before workers fork."""
