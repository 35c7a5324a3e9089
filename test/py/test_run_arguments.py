"""`tiduc run` reports errors in its arguments before it compiles."""

from pathlib import Path

import numpy as np
import pytest

from tiduc.backends.backend import ENGINES
from tiduc.cli import execution, run, running
from tiduc.program import Program

PROGRAM = """
func.func @main(%a: tensor<2x3xf32> {tidu.name = "a"}, %b: tensor<3xf64> {tidu.name = "b"}) -> tensor<3xf64> {
  %0 = stablehlo.sine %b : tensor<3xf64>
  return %0 : tensor<3xf64>
}
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A program that must not be compiled."""

    def compiled(*_: object, **__: object) -> None:
        raise AssertionError("the program was compiled")

    monkeypatch.setattr(execution, "build", compiled)
    monkeypatch.setattr(running, "build", compiled)
    monkeypatch.setattr(Program, "lower", compiled)
    monkeypatch.setattr(Program, "compile", compiled)
    (tmp_path / "f.mlir").write_text(PROGRAM)
    return str(tmp_path / "f.mlir")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "inputs, words",
    [
        ([], "main takes 2 arguments (a: 2x3xf32, b: 3xf64), got 0"),
        (["zeros", "zeros", "zeros"], "'zeros' is one too many"),
        (["2x3xf32=0", "3xf64=0", "3xf64=0"], "main takes 2 arguments (a: 2x3xf32, b: 3xf64), got 3"),
        (["3x2xf32=0", "zeros"], "argument 0 (a): expected 2x3xf32, got 3x2xf32"),
        (["zeros", "3xf32=0"], "argument 1 (b): expected 3xf64 (dtype float64), got dtype float32"),
        (["zeros", "@none.npy"], "none.npy: error: cannot read"),
    ],
)
def test_wrong_arguments(
    inputs: list[str], words: str, engine: str, file: str, capfd: pytest.CaptureFixture[str]
) -> None:
    options = [word for text in inputs for word in ("--input", text)]
    assert run(["run", file, "--engine", engine, *options]) == 1
    assert words in capfd.readouterr().err


def test_wrong_weights(file: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "w.npz", a=np.zeros((3, 2), np.float32))
    assert run(["run", file, "--weights", str(tmp_path / "w.npz"), "--input", "zeros"]) == 1
    assert "argument 0 (a): expected 2x3xf32, got 3x2xf32" in capfd.readouterr().err


def test_parameters_are_not_arguments(file: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "w.npz", a=np.zeros((2, 3), np.float32))
    options = ["--parameters", str(tmp_path / "w.npz")]
    assert run(["run", file, *options, "--input", "zeros", "--input", "3xf64=0"]) == 1
    assert "main takes 1 argument (b: 3xf64), got 2" in capfd.readouterr().err
    assert run(["run", file, *options, "--input", "4xf64=0"]) == 1
    assert "argument 0 (b): expected 3xf64, got 4xf64" in capfd.readouterr().err


def test_right_arguments_are_compiled_for(file: str) -> None:
    with pytest.raises(AssertionError, match="the program was compiled"):
        run(["run", file, "--input", "zeros"])
