"""Tests programs as static libraries: loops, branches, random numbers, data-dependent sizes, and unsupported code."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases.random_numbers import rng, seed
from harness.static_libraries import run_library

from tiduc.backends.backend import Options
from tiduc.backends.iree.elf import NO_KERNELS
from tiduc.backends.iree.objects import ObjectFile
from tiduc.backends.iree.static import host
from tiduc.backends.iree.static.library import compile_library
from tiduc.backends.iree.steps import LOWERED, SCHEDULED
from tiduc.cli import run as cli
from tiduc.dialect.errors import CompileError
from tiduc.loading import load
from tiduc.runtime.process import Ended
from tiduc.training.step import train_step

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
RNG = np.random.default_rng(0)

NET = f"""func.func @main(%w: tensor<4x4xf32> {{tidu.name = "w"}}, %given: tensor<8x4xf32> {{tidu.name = "x"}},
    %n: tensor<i32> {{tidu.name = "n"}}) -> tensor<8x4xf32> {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %low = stablehlo.constant dense<0.0> : tensor<f32>
  %high = stablehlo.constant dense<1.0> : tensor<f32>
  %sizes = stablehlo.constant dense<[8, 4]> : tensor<2xi64>
  %zeros = stablehlo.constant dense<0.0> : tensor<8x4xf32>
  %half = stablehlo.constant dense<0.5> : tensor<8x4xf32>
  %table = stablehlo.constant dense_resource<table> : tensor<8x256xf32>
  {rng("noise", "low", "high", "8x4xf32", "NORMAL")}
  %x = stablehlo.add %given, %noise : tensor<8x4xf32>
  %r:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<8x4xf32>
  cond {{
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }} do {{
    %p = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0]
      : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %odd = stablehlo.and %i, %one : tensor<i32>
    %s = "stablehlo.case"(%odd) ({{
      %t = stablehlo.tanh %p : tensor<8x4xf32>
      stablehlo.return %t : tensor<8x4xf32>
    }}, {{
      {rng("u", "low", "high", "8x4xf32")}
      %kept = stablehlo.compare LT, %u, %half : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xi1>
      %t = stablehlo.select %kept, %p, %zeros : tensor<8x4xi1>, tensor<8x4xf32>
      stablehlo.return %t : tensor<8x4xf32>
    }}) : (tensor<i32>) -> tensor<8x4xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %s : tensor<i32>, tensor<8x4xf32>
  }}
  %sums = stablehlo.reduce(%table init: %low) applies stablehlo.add across dimensions = [1]
    : (tensor<8x256xf32>, tensor<f32>) -> tensor<8xf32>
  {rng("v", "low", "high", "8x4xf32")}
  %chance = stablehlo.logistic %r#1 : tensor<8x4xf32>
  %taken = stablehlo.compare LT, %v, %chance : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xi1>
  %sampled = stablehlo.convert %taken : (tensor<8x4xi1>) -> tensor<8x4xf32>
  %b = stablehlo.broadcast_in_dim %sums, dims = [0] : (tensor<8xf32>) -> tensor<8x4xf32>
  %o = stablehlo.add %r#1, %b : tensor<8x4xf32>
  %y = stablehlo.add %o, %sampled : tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}}
{{-#
  dialect_resources: {{ builtin: {{ table: "0x04000000{RNG.standard_normal((8, 256), np.float32).tobytes().hex()}" }} }}
#-}}"""
"""A program with a loop of `n` iterations and a branch, noise, dropout, a random sample, and a constant of 8 KiB."""


@needs_gcc
@pytest.mark.more
def test_a_step_with_loops_branches_and_draws(tmp_path: Path) -> None:
    """Two training steps of a static library equal two steps of a VM module, bit for bit.

    Each step draws other random numbers, which the seed determines.
    """
    step = train_step(load(NET), "mse", "adam", train=["w"], seed=3)
    names, outputs = [port.name for port in step.inputs], [port.name for port in step.outputs]
    arrays = {
        **{name: RNG.standard_normal(shape, np.float32) for name, shape in (("w", (4, 4)), ("x", (8, 4)))},
        "target": RNG.standard_normal((8, 4), np.float32),
        "n": np.array(5, np.int32),
        "rate": np.array(0.01, np.float32),
        **step.weights,
    }
    found = run_library(step, [arrays[name] for name in names], tmp_path, offset=4)
    module = step.compile("x86_64")
    first = module(*(arrays[name] for name in names))
    arrays |= dict(zip(outputs[1:], first[1:], strict=True))
    second = module(*(arrays[name] for name in names))
    for x, y in zip(found, second, strict=True):
        np.testing.assert_array_equal(x, y)
    np.testing.assert_array_equal(second[outputs.index("seed")], seed(3, 2))
    again = module(*({**arrays, "seed": seed(3, 0)}[name] for name in names))
    assert again[0] != second[0]  # each step draws other random numbers


ROW = """func.func @main(%x: tensor<3x4xf32>) -> (tensor<1x4xf32>, tensor<2xi32>, tensor<3x4xf32>) {
  %0 = stablehlo.slice %x [1:2, 0:4] : (tensor<3x4xf32>) -> tensor<1x4xf32>
  %1 = stablehlo.constant dense<[5, -7]> : tensor<2xi32>
  return %0, %1, %x : tensor<1x4xf32>, tensor<2xi32>, tensor<3x4xf32>
}"""


@needs_gcc
@pytest.mark.more
def test_a_library_without_kernels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A program that only copies slices, constants and arguments becomes a library without kernels.

    Its object file contains no code, and can be linked.
    """
    x = RNG.standard_normal((3, 4), np.float32)
    row, constant, whole = run_library(load(ROW), [x], tmp_path, offset=4)
    np.testing.assert_array_equal(row, x[1:2])
    np.testing.assert_array_equal(constant, [5, -7])
    np.testing.assert_array_equal(whole, x)
    assert cli(["size", str(tmp_path / "net.o")]) == 0 and "file, without kernels" in capsys.readouterr().out
    assert (tmp_path / "net.o").read_bytes() == NO_KERNELS


SIZES = """func.func @main(%n: tensor<1xi32>, %m: tensor<1xi32>) -> tensor<i32> {
  %z = stablehlo.constant dense<0> : tensor<i32>
  %x = stablehlo.dynamic_iota %n, dim = 0 : (tensor<1xi32>) -> tensor<?xi32>
  %y = stablehlo.dynamic_iota %m, dim = 0 : (tensor<1xi32>) -> tensor<?xi32>
  %p = stablehlo.multiply %x, %y : tensor<?xi32>
  %r = stablehlo.reduce(%p init: %z) applies stablehlo.add across dimensions = [0]
    : (tensor<?xi32>, tensor<i32>) -> tensor<i32>
  return %r : tensor<i32>
}"""
"""A sum of products of two arrays whose sizes are the values of the arguments."""


@needs_gcc
@pytest.mark.more
def test_sizes_that_are_data(tmp_path: Path) -> None:
    """A library whose arguments are the sizes of arrays accepts any equal sizes, and returns 6 if they differ."""

    def given(*sizes: int) -> list[np.ndarray]:
        return [np.array([size], np.int32) for size in sizes]

    assert run_library(load(SIZES), given(1000, 1000), tmp_path)[0] == sum(i * i for i in range(1000))
    data = np.array([1000, 999], np.int32).tobytes()
    assert subprocess.run([tmp_path / "a.out"], input=data, stdout=subprocess.PIPE).returncode == 6


def test_host_code_is_refused_before_kernels_are_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Host code that cannot be translated is refused before kernels are compiled.

    The error names the op of the host code and the file of the program.
    """
    monkeypatch.delitem(host._TRANSLATE, "cf.assert")
    phases: list[str] = []
    reached = ObjectFile.reached

    def recorded(self: ObjectFile, command: Any, run: Any, folder: str, phase: str, text: bytes) -> Ended:
        phases.append(phase)
        return reached(self, command, run, folder, phase, text)

    monkeypatch.setattr(ObjectFile, "reached", recorded)
    (tmp_path / "sizes.mlir").write_text(SIZES)
    with pytest.raises(CompileError, match=r"cf.assert on the host is not supported") as refused:
        compile_library(load(tmp_path / "sizes.mlir").lower(), "net", Options("x86_64", fast=False))
    assert "sizes.mlir:" in refused.value.location
    assert phases[-1] == SCHEDULED and LOWERED not in phases
