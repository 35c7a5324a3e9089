"""A model with weights of 100 MB passes all stages of compilation as bytes.

Its text would take 200 MB. `pytest -m slow` runs these tests.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

WIDTH, DEPTH = 2560, 4
WEIGHTS = 4 * WIDTH * WIDTH * DEPTH / 2**20  # MiB

SCRIPT = """
import os, resource, sys
import numpy as np
import onnx.shape_inference
import tiduc, tiduc.models.from_onnx, tiduc.program

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

folder, lifted = sys.argv[1], sys.argv[2] == "lifted"
start = peak()
model = tiduc.from_onnx(f"{folder}/m.onnx", lift_constants=lifted)
vjp = model.vjp()
vjp.save(f"{folder}/vjp.mlirbc")
print(peak() - start, os.path.getsize(f"{folder}/vjp.mlirbc") / 2**20)
compiled = vjp.compile(cached=False)
print(peak() - start, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)
x = np.ones((8, model.inputs[-1].type.shape[1]), np.float32)
y, *gradients = compiled(*vjp.arguments(x, x))
assert len(gradients) == len(model.inputs) and np.isfinite(gradients[-1]).all() and gradients[-1].any()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that contains an ONNX model of square matrices."""
    rng, path = np.random.default_rng(0), tmp_path_factory.mktemp("large")
    arrays = [rng.standard_normal((WIDTH, WIDTH)).astype(np.float32) / 50 for _ in range(DEPTH)]
    nodes = []
    for i in range(DEPTH):
        nodes.append(helper.make_node("Gemm", [f"h{i}", f"w{i}"], [f"g{i}"], transB=1))
        nodes.append(helper.make_node("Tanh", [f"g{i}"], [f"h{i + 1}"]))
    ends = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [8, WIDTH])] for name in ("h0", f"h{DEPTH}")
    ]
    weights = [numpy_helper.from_array(array, f"w{i}") for i, array in enumerate(arrays)]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", *ends, weights)), path / "m.onnx")
    return path


def measured(folder: Path, mode: str) -> list[float]:
    """Four sizes in MiB: the peak memory of all stages up to the written file, the size of the file, and the peak
    memory of the two processes that compile it.
    """
    command = [sys.executable, "-c", SCRIPT, str(folder), mode]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [float(word) for word in done.stdout.split()]


@pytest.mark.slow
def test_weights_as_inputs_are_in_memory_once(folder: Path) -> None:
    stages, file, compiling, compiler = measured(folder, "lifted")
    assert file < 0.1  # contains no weights
    assert compiling - stages < 0.5 * WEIGHTS and compiler < stages + 4 * WEIGHTS
    assert stages < 2.5 * WEIGHTS  # includes the bytes of the read file, and the arrays


@pytest.mark.slow
def test_weights_as_constants_stay_bytes(folder: Path) -> None:
    stages, file, _, _ = measured(folder, "constants")
    assert WEIGHTS < file < 1.01 * WEIGHTS
    assert stages < 3.5 * WEIGHTS  # includes also the bytes of the written file
