"""TIDUC_MLIR selects other MLIR bindings. If they lack a part that tiduc needs, the error message names that part.

Only torch-mlir's wheel has all that tiduc needs. The tests imitate other builds of MLIR by folders with links to some
of this wheel's files, under the name of the upstream package.
"""

import os
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

import pytest
import torch_mlir.ir
from harness.example_files import EXAMPLES

WHEEL = Path(torch_mlir.ir.__file__).parent
CODE = """
import sys, tiduc
print(tiduc.load("f.mlir").grad("x"))
from torch_mlir import ir
assert ir is sys.modules["mlir.ir"] and ir.__name__ == "mlir.ir"
from tiduc.cli import run
assert run(["import", "digits.onnx"]) == 1
"""
PROGRAM = """func.func @main(%x: tensor<f64>) -> tensor<f64> {
  %0 = stablehlo.sine %x : tensor<f64>
  return %0 : tensor<f64>
}"""


def link(source: Path, folder: Path, without: Collection[str] = ()) -> None:
    """Fills `folder` with links to files in `source`, except files whose names begin with a string of `without`."""
    folder.mkdir()
    for path in source.iterdir():
        if path.name in ("_mlir_libs", "extras"):
            link(path, folder / path.name, without)
        elif not path.name.startswith(tuple(without)):
            (folder / path.name).symlink_to(path)


def grad(folder: Path, package: str, *command: str) -> subprocess.CompletedProcess[str]:
    (folder / "f.mlir").write_text(PROGRAM)
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "TIDUC_MLIR": package}
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True
    )


def test_bindings_under_the_name_of_upstream(tmp_path: Path) -> None:
    link(WHEEL, tmp_path / "mlir", ["onnx_importer"])
    (tmp_path / "digits.onnx").symlink_to(EXAMPLES / "digits.onnx")
    ended = grad(tmp_path, "mlir", "-c", CODE)
    assert "stablehlo.cosine %arg0" in ended.stdout
    assert ended.stderr.startswith("error: TIDUC_MLIR=mlir: cannot import name 'onnx_importer'")


@pytest.mark.parametrize(
    "package, left_out, words",
    [
        # Imitates StableHLO's own build, which has all of MLIR and StableHLO except StableHLO's optimization passes.
        ("mlir", ["_torchMlir"], "lack what tiduc uses: passes stablehlo-aggressive-simplification\n"),
        ("mlir", ["_stablehlo", "rewrite"], "lack what tiduc uses: modules rewrite, _mlir_libs._stablehlo\n"),
        ("jaxlib.mlir", [], "modules rewrite, dialects.ext, dialects.quant; passes canonicalize, cse, inline, "),
        ("elsewhere", [], "there is no such package\n"),
    ],
)  # fmt: skip
def test_refusals(tmp_path: Path, package: str, left_out: list[str], words: str) -> None:
    link(WHEEL, tmp_path / "mlir", left_out)
    ended = grad(tmp_path, package, "-m", "tiduc", "grad", "f.mlir")
    assert ended.returncode == 1 and ended.stderr.startswith(f"error: TIDUC_MLIR={package}: ")
    assert words in ended.stderr


def test_classes_of_dialects_beside_tiduc() -> None:
    """Other code in the process still gets the op classes of a dialect when it imports the dialect.

    tiduc registers empty modules for the dialects, so that MLIR loads no op classes until then.
    """
    text = "func.func @f(%i: index) { scf.for %j = %i to %i step %i { } return }"
    code = f"""
from tiduc.dialect.mlir.context import context
from torch_mlir import ir
context()
with ir.Context():
    module = ir.Module.parse({text!r})
    block = module.body.operations[0].regions[0].blocks[0]
    assert type(block.operations[0]) is ir.OpView
    from torch_mlir.dialects import scf
    loop = block.operations[0]
    assert type(loop) is scf.ForOp and len(loop.body.arguments) == 1
"""
    subprocess.run([sys.executable, "-c", code], check=True)
