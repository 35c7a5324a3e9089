"""Tests diagnostics that suggest a correction, and diagnostics in the format JSON."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from tiduc.cli import run

FUNCTION = "func.func @{name}(%x: tensor<f64>) -> tensor<f64> {{\n  %0 = {op} : {type}\n  return %0 : tensor<f64>\n}}\n"


def function(op, name="main", type="tensor<f64>"):
    return FUNCTION.format(op=op, name=name, type=type)


SINE = function("stablehlo.sine %x")
CALL = function("stablehlo.custom_call @mine(%x)", type="(tensor<f64>) -> tensor<f64>")
INTEGER = (
    "func.func @main(%x: tensor<f64>) -> tensor<i32> {\n"
    "  %0 = stablehlo.constant dense<3> : tensor<i32>\n  return %0 : tensor<i32>\n}\n"
)


@pytest.mark.parametrize(
    ("command", "text", "message"),
    [
        (
            "grad",
            function("stablehlo.sine %x", "f") + function("stablehlo.cosine %x", "g"),
            "choose one with --entry",
        ),
        ("grad", "# A model.\n\nimport jax\n", "error: Python source: export its function first"),
        ("grad", INTEGER, "the outputs are (tensor<i32>); none of them has a derivative"),
        ("grad", CALL, "unknown call target: mine; --rules names a module with its rule"),
        ("compile", CALL, "IREE has no @mine; --rules names a module with its lowering"),
        (
            "compile",
            CALL.replace("@mine", "@xla_ffi_python_cpu_callback"),
            "calls a Python function, which a module does not contain; tiduc.from_jax imports the function",
        ),
        ("run --input x.npy", SINE, "for the file, write @x.npy"),
        (
            "grad",
            function("mhlo.sine %x"),
            ":2:8: error: the program is in the dialect mhlo: convert it to StableHLO",
        ),
        (
            "grad",
            function('"mhlo.sine"(%x)', type="(tensor<f64>) -> tensor<f64>"),
            "the program is in the dialect mhlo: convert it to StableHLO",
        ),
        ("opt --tidu-linearize", SINE, ":1:1: error: the module has no graph: run tidu-import first"),
        ("opt --tidu-materialize-merge", SINE, ":1:1: error: the module has no graph"),
        ("opt --tidu-linear-transpose", SINE, ":1:1: error: the module has no linear graph"),
        ("opt --pass-pipeline=grad", SINE, "did you mean 'tidu-grad'?"),
        ("opt --pass-pipeline=tidu-linear", SINE, "did you mean 'tidu-linear"),
        ("opt --pass-pipeline=tidu-gard", SINE, "did you mean 'tidu-grad'?"),
        (
            "opt --tidu-grad",
            function("stablehlo.sine %x").replace("<f64>", "<3xf64>"),
            "one real scalar output",
        ),
    ],
)
def test_hint(command, text, message, tmp_path, capfd):
    file = tmp_path / "f.mlir"
    file.write_text(text)
    name, *options = command.split()
    assert run([name, str(file), *options]) == 1
    assert message in capfd.readouterr().err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("model.mlir --wrt x", "The command comes before the file: tiduc grad model.mlir"),
        (
            "grad x f.mlir",
            "argument (f.mlir). The only argument is FILE; inputs to differentiate follow --wrt",
        ),
        ("run f.mlir x.npy", "FILE; arrays follow --input, as in --input @x.npy"),
        (
            "grad f.mlir --order 2",
            "differentiated again: tiduc grad FILE | tiduc grad -, or tiduc hvp FILE; it is an",
        ),
        ("run f.mlir --wrt x", "No such option: --wrt; it is an option of: tiduc jvp, tiduc vjp, tiduc grad"),
        ("run f.mlir --inptu 2", "No such option: --inptu; did you mean --input?"),
    ],
)
def test_hint_about_the_command_line(line, message, capfd):
    assert run(line.split()) == 2
    assert message in capfd.readouterr().err


def test_no_option_is_suggested_that_only_shares_letters(capfd):
    assert run(["grad", "f.mlir", "--order", "2"]) == 2
    assert "--relu" not in capfd.readouterr().err


def test_remark_where_nothing_has_a_derivative(tmp_path, capfd):
    file = tmp_path / "f.mlir"
    file.write_text("func.func @main(%x: tensor<i32>) -> tensor<i32> { return %x : tensor<i32> }")
    assert run(["vjp", str(file)]) == 0
    assert "remark: no input is of float or complex type" in capfd.readouterr().err


@pytest.fixture
def sine(tmp_path):
    file = tmp_path / "f.mlir"
    file.write_text(SINE)
    return str(file)


def test_results_as_json(sine, capfd):
    assert run(["run", sine, "--input", "0.5", "--json", "--engine", "reference"]) == 0
    assert json.loads(capfd.readouterr().out) == {
        "result0": {"shape": [], "dtype": "float64", "values": np.sin(0.5)}
    }


def test_a_number_that_is_not_finite_is_null_in_json(sine, capfd):
    assert run(["run", sine, "--input", "inf", "--json", "--engine", "reference"]) == 0
    assert json.loads(capfd.readouterr().out)["result0"]["values"] is None


def test_a_gradient_as_json(sine, capfd):
    assert run(["grad", sine, "--json"]) == 0
    gradient = json.loads(capfd.readouterr().out)
    assert gradient["entry"] == "main"
    assert gradient["inputs"] == [{"name": "x", "type": "tensor<f64>"}]
    assert gradient["outputs"] == [{"name": "x.cotangent", "type": "tensor<f64>"}]
    assert "stablehlo.cosine" in gradient["module"]


@pytest.mark.parametrize("flags", [["grad", "--json"], ["--json-errors", "jvp"]])
def test_errors_as_json(flags, tmp_path, capfd):
    file = tmp_path / "f.mlir"
    file.write_text(CALL)
    assert run([*flags, str(file)]) == 1
    error = json.loads(capfd.readouterr().err)
    assert (error["error"], error["file"], error["line"], error["column"]) == ("Unsupported", str(file), 2, 8)
    assert error["message"].startswith("unsupported jvp AD rule")
    assert error["notes"] == []


def test_shared_options_have_one_record():
    """No code of the command line reads options from click's context by string keys, except completion.

    Other code reads the fields of `SharedOptions`. Completion cannot, because click completes a word before the
    command's function runs, and passes the values parsed until then only in `params`.
    """
    folder = Path(__file__).parents[2] / "tiduc" / "cli"
    by_key = re.compile(r"(?:context|ctx|find_root\(\))\.(?:meta|obj|params)\b[^ ,)]*")
    reads = {(path.name, read) for path in folder.glob("*.py") for read in by_key.findall(path.read_text())}
    allowed = {'context.params.get("file"', 'context.params.get("entry"'}
    assert reads == {("completion.py", read) for read in allowed}
