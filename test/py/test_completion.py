"""Tests shell completion: names of inputs after --wrt, and names of passes after `tiduc opt`."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from tiduc.cli import tiduc

TYPE = "tensor<f32>"
TEXT = (
    f"func.func @main(%alpha: {TYPE}, %beta: {TYPE}, %a: {TYPE}) -> {TYPE} {{\n"
    f"  %0 = stablehlo.add %alpha, %beta : {TYPE}\n  return %0 : {TYPE}\n}}\n"
)


def completed(arguments: Sequence[str], incomplete: str) -> list[str]:
    complete = ShellComplete(tiduc, {}, "tiduc", "_TIDUC_COMPLETE")
    return [item.value for item in complete.get_completions(list(arguments), incomplete)]


@pytest.mark.parametrize(
    ("incomplete", "names"),
    [
        ("", ["alpha", "beta", "a"]),
        ("a", ["alpha", "a"]),
        ("alpha,", ["alpha,beta", "alpha,a"]),
        ("beta,al", ["beta,alpha"]),
        ("gamma", []),
    ],
)
def test_names_of_inputs(incomplete: str, names: Sequence[str], tmp_path: Path) -> None:
    (tmp_path / "f.mlir").write_text(TEXT)
    for command in ("grad", "check"):
        assert completed([command, str(tmp_path / "f.mlir"), "--wrt"], incomplete) == names


def test_nothing_is_suggested_without_a_program(tmp_path: Path) -> None:
    (tmp_path / "f.mlir").write_text("func.func")
    for file in ("-", str(tmp_path / "f.mlir"), str(tmp_path / "absent.mlir"), "model.onnx"):
        assert completed(["grad", file, "--wrt"], "") == []


def test_passes() -> None:
    assert completed(["opt", "f.mlir"], "--tidu-linear") == ["--tidu-linearize", "--tidu-linear-transpose"]
    assert "--cse" in completed(["opt", "f.mlir"], "--cs")
    assert {"--pass-pipeline", "--print-pass-statistics"} & set(completed(["opt", "f.mlir"], "--p"))
    assert "--cse" not in completed(["grad", "f.mlir"], "--c")
