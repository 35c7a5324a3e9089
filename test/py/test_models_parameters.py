"""Weights that a compiled module reads from an archive of parameters."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiduc
import tiduc.runtime
from tiduc.backends.iree.parameters import reading_parameters
from tiduc.cli import run
from tiduc.dialect.mlir.context import context, parse
from tiduc.models.model import model_of
from tiduc.models.parameters import parameters_of
from tiduc.program import from_module
from tiduc.runtime.weights import write_weights

RNG = np.random.default_rng(0)
WEIGHTS = {
    "layer.0/weight": RNG.standard_normal((3, 2)).astype(np.float32),
    "bias['b']": RNG.standard_normal(2).astype(np.float32),
}
TEXT = """
func.func @main(%w: tensor<3x2xf32> {tidu.name = "layer.0/weight"}, %x: tensor<?x3xf32> {tidu.name = "x"},
                %b: tensor<2xf32> {tidu.name = "bias['b']"}) -> tensor<?x2xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
     : (tensor<?x3xf32>, tensor<3x2xf32>) -> tensor<?x2xf32>
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x3xf32>) -> tensor<i32>
  %1 = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
  %2 = stablehlo.constant dense<2> : tensor<1xi32>
  %s = stablehlo.concatenate %1, %2, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %3 = stablehlo.dynamic_broadcast_in_dim %b, %s, dims = [1] : (tensor<2xf32>, tensor<2xi32>) -> tensor<?x2xf32>
  %4 = stablehlo.add %0, %3 : tensor<?x2xf32>
  %5 = stablehlo.tanh %4 : tensor<?x2xf32>
  return %5 : tensor<?x2xf32>
}"""


@pytest.fixture
def model() -> "tiduc.Model":
    return model_of(parse(TEXT), WEIGHTS)


@pytest.mark.parametrize("suffix", [".irpa", ".safetensors"])
def test_the_module_takes_the_other_inputs(model: "tiduc.Model", tmp_path: Path, suffix: str) -> None:
    archive = tmp_path / f"w{suffix}"
    vjp = model.vjp(["x"])
    compiled = vjp.compile_with_parameters(archive)
    assert [value.name for value in compiled.signature.inputs] == ["x", "result0.cotangent"]
    assert compiled.signature.sizes
    x, seed = RNG.standard_normal((4, 3)).astype(np.float32), RNG.standard_normal((4, 2)).astype(np.float32)
    expected = vjp.compile()(*vjp.arguments(x, seed))
    for got, wanted in zip(compiled(x, seed), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-6)
    with pytest.raises(tiduc.InputError, match="cotangent"):
        compiled(x, seed[:3])


def test_another_archive_gives_other_numbers(model: "tiduc.Model", tmp_path: Path) -> None:
    compiled = model.compile_with_parameters(tmp_path / "w.irpa")
    other = {name: 2 * array for name, array in WEIGHTS.items()}
    write_weights(tmp_path / "other.irpa", other)
    x = RNG.standard_normal((4, 3)).astype(np.float32)
    with tiduc.runtime.load(compiled.vmfb, parameters=tmp_path / "other.irpa") as module:
        (y,) = module["main"](x)
    (expected,) = model.compile()(*model.with_weights(other).arguments(x))
    np.testing.assert_allclose(y, expected, rtol=1e-6, atol=1e-6)


def test_archives_that_are_missing(model: "tiduc.Model", tmp_path: Path) -> None:
    vmfb = model.compile_with_parameters(tmp_path / "w.irpa").vmfb
    with pytest.raises(tiduc.TiducError, match="the module reads parameters: name the archive"):
        tiduc.runtime.load(vmfb)
    with pytest.raises(tiduc.TiducError, match="cannot read"):
        tiduc.runtime.load(vmfb, parameters=tmp_path / "none.irpa")
    (tmp_path / "bad.irpa").write_bytes(b"hello")
    with pytest.raises(tiduc.TiducError, match="not an archive of parameters"):
        tiduc.runtime.load(vmfb, parameters=tmp_path / "bad.irpa")
    write_weights(tmp_path / "few.irpa", {"layer.0/weight": WEIGHTS["layer.0/weight"]})
    with pytest.raises(tiduc.TiducError, match="bias"):
        tiduc.runtime.load(vmfb, parameters=tmp_path / "few.irpa")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"v": np.float32(0)}, "the program has no input 'v'; the inputs are layer.0/weight, x"),
        ({"layer.0/weight": np.zeros((2, 3), np.float32)}, "the type 3x2xf32, but the parameter is float32"),
        ({"layer.0/weight": np.zeros((3, 2))}, "the type 3x2xf32, but the parameter is float64"),
    ],
)
def test_parameters_that_do_not_fit(model: "tiduc.Model", arrays: Any, message: str) -> None:
    with pytest.raises(tiduc.RequestError, match=message):
        parameters_of(model, arrays)


@pytest.mark.parametrize("head", ["module", "module @net", 'module @net attributes {tidu.note = "module {"}'])
def test_the_wrapper_follows_the_line_that_opens_the_module(head: str) -> None:
    """The wrapper that reads weights from the archive is inserted after the line that opens the module, although lines
    with locations precede that line.
    """
    text = f"""{head} {{
  func.func @main(%w: tensor<2xf32>, %x: tensor<2xf32>) -> tensor<2xf32> attributes {{iree.reflection = {{}}}} {{
    %0 = stablehlo.add %w, %x : tensor<2xf32> loc("module {{")
    return %0 : tensor<2xf32>
  }}
}}"""
    with context():
        lines = reading_parameters(text, from_module(parse(text)).signature, ["w"]).splitlines()
    opening = lines.index(f"{head} {{")
    assert opening > 0 and all(line.startswith("#loc") for line in lines[:opening])
    assert lines[opening + 1].startswith(
        '  util.global private @parameter.0 = #flow.parameter.named<"model"::"w">'
    )
    assert lines[opening + 2].startswith("  func.func @main(%x1: tensor<2xf32>)")
    assert sum("util.global private" in line for line in lines) == 1


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, archive, module = (str(tmp_path / name) for name in ("m.mlir", "w.irpa", "m.vmfb"))
    Path(file).write_text(TEXT)
    write_weights(archive, WEIGHTS)
    assert run(["compile", file, "--parameters", archive, "-o", module]) == 0
    assert run(["run", module, "--parameters", archive, "--input", "1x3xf32=1,2,3"]) == 0
    first = capsys.readouterr().out
    assert run(["run", file, "--weights", archive, "--input", "1x3xf32=1,2,3"]) == 0
    assert capsys.readouterr().out == first
    assert run(["run", module, "--input", "1x3xf32=1,2,3"]) == 1
    assert "m.vmfb: error: the module reads parameters" in capsys.readouterr().err
    assert run(["compile", file, file, "--parameters", archive, "-o", module]) == 1
    assert "one by one" in capsys.readouterr().err
