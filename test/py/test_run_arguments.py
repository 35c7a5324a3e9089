"""`tiduc run` reports errors in its arguments before it compiles."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tiduc.backends.backend import ENGINES
from tiduc.cli import libraries, run, running
from tiduc.program import Program

PROGRAM = """
func.func @main(%a: tensor<2x3xf32> {tidu.name = "a"}, %b: tensor<3xf64> {tidu.name = "b"}) -> tensor<3xf64> {
  %0 = stablehlo.sine %b : tensor<3xf64>
  return %0 : tensor<3xf64>
}
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The path of a program. Compiling the program raises an exception, so that the test fails."""

    def compiled(*_: object, **__: object) -> None:
        raise AssertionError("the program was compiled")

    monkeypatch.setattr(libraries, "build", compiled)
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


TWO = """func.func @main(%a: tensor<f64>, %x: tensor<2xf64>) -> (tensor<f64>, tensor<2xf64>) {
  return %a, %x : tensor<f64>, tensor<2xf64>
}"""


@pytest.mark.parametrize(
    "words",
    [
        ["x=1,2", "a=3"],
        ["x=2xf64=[1,2]", "3"],
        ["3", "x=@all.npz:x"],
        ["@all.npz:x", "@all.npz:a"],
        ["x=@x.npy", "a=@all.npz:a"],
    ],
)
def test_by_name(words: list[str], tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    """Named arguments may be given in any order. Arguments without a name are for the remaining inputs, in order."""
    monkeypatch.chdir(tmp_path)
    Path("two.mlir").write_text(TWO)
    np.savez("all.npz", x=[1.0, 2.0], a=3.0)
    np.save("x.npy", [1.0, 2.0])
    assert run(["run", "two.mlir", "--engine", "reference", *(f"--input={word}" for word in words)]) == 0
    assert capsys.readouterr().out.split() == ["result0:", "f64=3.0", "result1:", "2xf64=1.0,2.0"]


def test_random_for_the_others(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    """A single `random` fills all inputs that have no named argument, for `run` and for other commands."""
    monkeypatch.chdir(tmp_path)
    Path("two.mlir").write_text(TWO)
    assert run(["run", "two.mlir", "--engine", "reference", "--input", "a=3", "--input", "random"]) == 0
    assert capsys.readouterr().out.startswith("result0: f64=3.0\n")
    assert run(["check", "two.mlir", "--engine", "reference", "--input", "random", "--input", "x=1,2"]) == 0


@pytest.mark.parametrize(
    "words, message",
    [
        (["z=1,2,3"], "'z' is neither an input nor an element type; the inputs are: a, x"),
        (["x=1,2", "x=3,4"], "the input 'x' is given twice"),
        (["x=1,2"], "no array is given for the input 'a'"),
        (["x=1,2", "3", "4"], "one too many"),
        (["a=@all.npz"], "holds several arrays, and the input 'a' takes one"),
    ],
)
def test_names_that_do_not_fit(
    words: list[str], message: str, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("two.mlir").write_text(TWO)
    np.savez("all.npz", x=[1.0, 2.0], a=3.0)
    assert run(["run", "two.mlir", "--engine", "reference", *(f"--input={word}" for word in words)]) == 1
    assert message in capsys.readouterr().err
