"""Programs with Shardy's shardings on engines with one device compute the values of the programs without shardings."""

import re
from pathlib import Path

import numpy as np
import pytest

from tiduc.backends.iree import legalize_for_iree
from tiduc.cli import run
from tiduc.dialect.mlir.context import parse
from tiduc.program import Program, from_module

MESH = 'sdy.mesh @mesh = <["d"=DEVICES]>'
SHARDED = '{sdy.sharding = #sdy.sharding<@mesh, [{"d"}, {}]>}'
PROGRAM = f"""{MESH}
func.func private @tanh(%x: tensor<4x4xf64> {SHARDED}) -> (tensor<4x4xf64> {SHARDED}) {{
  %0 = stablehlo.tanh %x {{sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{{"d"}}, {{}}]>]>}} : tensor<4x4xf64>
  %1 = sdy.reshard %0 <@mesh, [{{}}, {{"d"}}]> : tensor<4x4xf64>
  return %1 : tensor<4x4xf64>
}}
func.func @main(%x: tensor<4x4xf64> {SHARDED}, %p: tensor<i1>, %n: tensor<i32>)
    -> (tensor<4x4xf64> {SHARDED}, tensor<4xf64>) {{
  %x1 = sdy.sharding_constraint %x <@mesh, [{{"d"}}, {{}}]> : tensor<4x4xf64>
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %z = stablehlo.constant dense<0.0> : tensor<f64>
  %r:2 = stablehlo.while(%i = %i0, %v = %x1) : tensor<i32>, tensor<4x4xf64>
  cond {{
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %d = sdy.sharding_constraint %c <@mesh, []> : tensor<i1>
    stablehlo.return %d : tensor<i1>
  }} do {{
    %a = stablehlo.sine %v : tensor<4x4xf64>
    %b = sdy.sharding_constraint %a <@mesh, [{{"d"}}, {{}}]> : tensor<4x4xf64>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %b : tensor<i32>, tensor<4x4xf64>
  }}
  %y = "stablehlo.if"(%p) ({{
    %a = stablehlo.cosine %r#1 : tensor<4x4xf64>
    %b = sdy.sharding_constraint %a <@mesh, [{{"d"}}, {{}}]> : tensor<4x4xf64>
    stablehlo.return %b : tensor<4x4xf64>
  }}, {{
    %b = sdy.sharding_constraint %r#1 <@mesh, [{{}}, {{"d"}}]> : tensor<4x4xf64>
    stablehlo.return %b : tensor<4x4xf64>
  }}) : (tensor<i1>) -> tensor<4x4xf64>
  %t = func.call @tanh(%y) : (tensor<4x4xf64>) -> tensor<4x4xf64>
  %s = stablehlo.reduce(%t init: %z) across dimensions = [1] : (tensor<4x4xf64>, tensor<f64>) -> tensor<4xf64>
   reducer(%a: tensor<f64>, %b: tensor<f64>) {{
    %c = stablehlo.add %a, %b : tensor<f64>
    %d = sdy.sharding_constraint %c <@mesh, []> : tensor<f64>
    stablehlo.return %d : tensor<f64>
  }}
  return %t, %s : tensor<4x4xf64>, tensor<4xf64>
}}"""


def sharded(devices: int) -> Program:
    return from_module(parse(PROGRAM.replace("DEVICES", str(devices))))


def plain() -> Program:
    """`PROGRAM` without its shardings. Barriers replace the constraints."""
    text = re.sub(
        r"^ *(%\w+) = sdy\.\w+ (%\S+) <.*> : (.*)$",
        r"\1 = stablehlo.optimization_barrier \2 : \3",
        PROGRAM,
        flags=re.MULTILINE,
    )
    text = re.sub(r"\{sdy\.sharding = .*?>\}|sdy\.mesh.*\n|\{sdy.sharding = .*\]>\}", "", text)
    assert "sdy" not in text
    return from_module(parse(text))


def test_the_module_for_iree() -> None:
    """The module for IREE contains no shardings, because IREE's compiler crashes on sharding constraints."""
    module = sharded(2).vjp("x").lower().module
    assert "sdy.sharding_constraint" in str(module) and "sdy.mesh" in str(module)
    legalize_for_iree(module)
    assert "sdy" not in str(module)


@pytest.mark.more
@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("engine", ["iree", "reference"])
def test_values_and_cotangents(devices: int, engine: str) -> None:
    rng = np.random.default_rng(0)
    x, ct, sums = rng.standard_normal((4, 4)), rng.standard_normal((4, 4)), rng.standard_normal(4)
    vjp, expected = sharded(devices).vjp("x"), plain().vjp("x")
    for p in (True, False):
        arguments = (x, np.array(p), np.array(3, np.int32), ct, sums)
        for found, wanted in zip(
            vjp.compile(engine=engine)(*arguments),
            expected.compile(engine="reference")(*arguments),
            strict=True,
        ):
            np.testing.assert_allclose(found, wanted, rtol=1e-12)


DYNAMIC = f"""{MESH.replace("DEVICES", "2")}
func.func @main(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {{
  %0 = stablehlo.negate %x : tensor<?xf32>
  %1 = sdy.sharding_constraint %0 <@mesh, [{{"d"}}]> : tensor<?xf32>
  %2 = stablehlo.add %1, %y : tensor<?xf32>
  return %2 : tensor<?xf32>
}}"""


@pytest.mark.more
@pytest.mark.parametrize("fast", [True, False])
def test_dynamic_dimensions(fast: bool) -> None:
    x, y = np.float32([1, 2, 3]), np.float32([4, 5, 7])
    (found,) = from_module(parse(DYNAMIC)).compile(fast=fast)(x, y)
    np.testing.assert_array_equal(found, y - x)


@pytest.mark.more
def test_the_command_and_a_static_library(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = DYNAMIC.replace("?xf32>", "4xf32>").replace("%x: tensor<4xf32>", f"%x: tensor<4xf32> {SHARDED}")
    (tmp_path / "f.mlir").write_text(text.replace('[{"d"}, {}]', '[{"d"}]'))
    file = str(tmp_path / "f.mlir")
    assert run(["run", file, "--input", "1,2,3,4", "--input", "zeros"]) == 0
    assert "-1.0,-2.0,-3.0,-4.0" in capsys.readouterr().out
    library = ["--target", "aarch64", "--emit", "static-library", "-o", str(tmp_path / "f.o")]
    assert run(["compile", file, *library]) == 0


MANUAL = f"""{MESH.replace("DEVICES", "2")}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{{"d"}}]>] out_shardings=[<@mesh, [{{"d"}}]>] \
manual_axes={{"d"}} (%a: tensor<2xf32>) {{
    %1 = stablehlo.sine %a : tensor<2xf32>
    sdy.return %1 : tensor<2xf32>
  }} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}}"""


def test_manual_computations_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "f.mlir").write_text(MANUAL)
    assert run(["run", str(tmp_path / "f.mlir"), "--input", "zeros"]) == 1
    said = capsys.readouterr().err
    assert "f.mlir:4:10:" in said and "sdy.manual_computation: it needs several devices" in said
