"""Ops that `tidu-legalize-for-iree` rewrites give the specified values on IREE.

test_iree_faults.py tests that IREE fails without the rewrites.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases.iree_case import Case, function
from cases.iree_cases import CASES, WRONG
from cases.iree_programs import GROUPED
from harness.one_module import Joined, joined, selected
from numpy.typing import NDArray

import tiduc
from tiduc.backends.iree import legalize_for_iree, pipeline
from tiduc.backends.iree.compile import compile_module
from tiduc.backends.iree.settings import Settings
from tiduc.cli import run
from tiduc.dialect.errors import Unsupported
from tiduc.dialect.mlir.context import parse, stage
from tiduc.runtime.run import Executable

Array = NDArray[Any]


def legalized(text: str) -> str:
    module = parse(text)
    legalize_for_iree(module)
    return stage(str)(module)


@pytest.fixture(scope="module")
def rewritten(request: pytest.FixtureRequest) -> Joined:
    """Fixture: the selected cases, compiled as one function, because that is faster than compiling many functions."""
    names = selected(request, "test_rewritten") | {"atan2"}  # another test needs `atan2`
    cases = {name: case for name, case in CASES.items() if name in names}
    text, counts = joined(function(name, case) for name, case in cases.items())
    run = Executable(compile_module(legalized(text)))
    return Joined(run, {name: case.arguments for name, case in cases.items()}, counts)


def agrees(y: Array, case: Case) -> bool:
    if case.rtol == 0:
        return bool(np.array_equal(y, case.expected, equal_nan=y.dtype.kind in "fc"))
    # In FFTs, Cholesky factors and solutions, elements near 0 are sums of larger terms. Their error is absolute.
    nearly = case.rtol if 1e-14 < case.rtol < 1e-9 else 0
    return bool(np.allclose(y, case.expected, rtol=case.rtol, atol=nearly, equal_nan=True))


@pytest.mark.parametrize("name", CASES)
def test_rewritten(rewritten: Joined, name: str) -> None:
    (y,) = rewritten[name](*CASES[name].arguments)
    assert agrees(y, CASES[name]), y


@pytest.mark.parametrize(
    ("body", "place", "reason"),
    [
        (
            "%0 = stablehlo.custom_call @f(%x) {has_side_effect = true} : (tensor<f32>) -> tensor<f32>",
            2,
            "IREE has no @f",
        ),
        ("%0 = func.call @main(%x) : (tensor<f32>) -> tensor<f32>", 2, "calls itself"),
        (
            "%t = stablehlo.create_token : !stablehlo.token\n"
            '%0:2 = "stablehlo.infeed"(%t) : (!stablehlo.token) -> (tensor<f32>, !stablehlo.token)',
            3,
            "no infeed",
        ),
        (
            "%a = stablehlo.constant dense<0> : tensor<i32>\n"
            "%s = stablehlo.constant dense<3> : tensor<1xi64>\n"
            "%0 = stablehlo.rng %a, %a, %s, distribution = UNIFORM"
            " : (tensor<i32>, tensor<i32>, tensor<1xi64>) -> tensor<3xi32>",
            4,
            "gives the same numbers in each call",
        ),
        ("%0 = stablehlo.constant dense<1> : tensor<3xi4>", 2, "must be known and a multiple of 8"),
        (
            "%0 = stablehlo.constant dense<[1, 2]> : tensor<2xi4>",
            2,
            "cannot load constants of i4; use a constant of i8",
        ),
    ],
)
def test_refused(body: str, place: int, reason: str) -> None:
    """An unsupported op is refused before the compiler starts. The error has the location of the op."""
    module = parse(
        f"func.func @main(%x: tensor<f32>) -> tensor<f32> {{\n{body}\nreturn %x : tensor<f32>\n}}", "f.mlir"
    )
    with pytest.raises(Unsupported, match=reason) as refused:
        legalize_for_iree(module)
    assert refused.value.location.split(":")[1] == str(place)


def test_hints_to_other_compilers_go() -> None:
    text = """func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %0 = stablehlo.custom_call @Sharding(%x) : (tensor<2xf32>) -> tensor<2xf32>
      return %0 : tensor<2xf32>
    }"""
    assert "custom_call" not in legalized(text)


def test_programs_are_rewritten_before_they_are_compiled() -> None:
    """`Program.compile` applies the rewrites to derivatives: the VJP of a Cholesky factorization runs on IREE."""
    program = tiduc.load(function("main", CASES["cholesky"]))
    x, *_ = CASES["cholesky"].arguments
    y, dx = program.vjp().compile()(x, np.broadcast_to(np.eye(4), x.shape).copy())
    np.testing.assert_allclose(y, np.linalg.cholesky(x), rtol=1e-13)
    assert np.all(np.isfinite(dx))


def test_dynamic_sizes() -> None:
    """A broadcast of a dynamic dimension is right for both sizes 1 and 2. Only a dimension of size 1 is expanded."""
    text = """func.func @main(%x: tensor<?x1xf32>, %n: tensor<i32>) -> tensor<?x3xf32> {
      %0 = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
      %1 = stablehlo.constant dense<3> : tensor<1xi32>
      %2 = stablehlo.concatenate %0, %1, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
      %3 = stablehlo.sine %x : tensor<?x1xf32>
      %4 = stablehlo.dynamic_broadcast_in_dim %3, %2, dims = [0, 1]
        : (tensor<?x1xf32>, tensor<2xi32>) -> tensor<?x3xf32>
      return %4 : tensor<?x3xf32>
    }"""
    run = Executable(compile_module(legalized(text)))
    for rows in (1, 2):
        x = np.arange(rows, dtype=np.float32).reshape(rows, 1) + 1
        (y,) = run(x, np.int32(2))
        np.testing.assert_allclose(y, np.broadcast_to(np.sin(x), (2, 3)), rtol=1e-6)


def test_groups_on_gpus() -> None:
    """On GPUs, a grouped convolution becomes products of slices, with the results of the convolution."""
    module = parse(GROUPED)
    legalize_for_iree(module, cpu=False)
    text = stage(str)(module)
    assert "stablehlo.convolution" not in text
    x = np.arange(16, dtype=np.float32).reshape(1, 4, 4)
    k = np.arange(24, dtype=np.float32).reshape(2, 2, 6) % 7
    (y,), (expected,) = (Executable(compile_module(t))(x, k) for t in (text, GROUPED))
    np.testing.assert_array_equal(y, expected)


def test_nibbles_on_gpus_are_refused() -> None:
    module = parse(
        "func.func @main(%x: tensor<2xi8>) -> tensor<2xi8> {\n"
        "%0 = stablehlo.convert %x : (tensor<2xi8>) -> tensor<2xi4>\n"
        "%1 = stablehlo.convert %0 : (tensor<2xi4>) -> tensor<2xi8>\nreturn %1 : tensor<2xi8>\n}"
    )
    with pytest.raises(Unsupported, match="code for GPUs"):
        legalize_for_iree(module, cpu=False)


def test_functions_of_constants() -> None:
    """A sine of a constant in f64 is right. Without tiduc, IREE would evaluate it by code that it cannot link."""
    text = """func.func @main() -> tensor<2xf64> {
      %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf64>
      %1 = stablehlo.sine %0 : tensor<2xf64>
      return %1 : tensor<2xf64>
    }"""
    (y,) = Executable(compile_module(text))()
    np.testing.assert_allclose(y, np.sin([1, 2]), rtol=1e-15)


def test_signs_of_zeros(rewritten: Joined) -> None:
    (y,) = rewritten["atan2"](*WRONG["atan2"].arguments)
    assert not np.signbit(y[0])


@pytest.mark.parametrize("entry", pipeline.PIPELINE, ids=lambda entry: entry.name)
def test_modules_have_ops_that_are_no_functions(entry: pipeline.Entry) -> None:
    """Each pass of the pipeline accepts a module with ops that are no functions, and with a function without a body.

    A device mesh, as in exports of JAX, is such an op.
    """
    module = parse("""
      sdy.mesh @mesh = <["a"=1]>
      func.func private @tiduc_lapack.f(tensor<3xf32>) -> tensor<3xf32>
      func.func @main(%x: tensor<3xf32>, %n: tensor<i32>) -> (tensor<3xf32>, tensor<i32>) {
        %0 = stablehlo.sine %x : tensor<3xf32>
        %1 = stablehlo.optimization_barrier {tidu.recomputed} %0 : tensor<3xf32>
        %2 = stablehlo.optimization_barrier {tidu.stored} %1 : tensor<3xf32>
        %3:2 = stablehlo.while(%i = %n, %c = %2) : tensor<i32>, tensor<3xf32>
          cond {
            %4 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %4 : tensor<i1>
          } do {
            %5 = stablehlo.add %i, %i : tensor<i32>
            %6 = stablehlo.cosine %c : tensor<3xf32>
            stablehlo.return %5, %6 : tensor<i32>, tensor<3xf32>
          }
        return %3#1, %3#0 : tensor<3xf32>, tensor<i32>
      }""")
    stage(entry.run)(module, Settings(cpu=entry.on != "CUDA", cuda=entry.on == "CUDA", vectors="512x32"))
    module.operation.verify()


def test_a_program_with_a_mesh(tmp_path: Path) -> None:
    """A program with a device mesh compiles to a module and to a static library.

    The function of the library has the name of the program's file.
    """
    path = tmp_path / "wave.mlir"
    path.write_text("""
      sdy.mesh @mesh = <["a"=1]>
      func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
        %0 = stablehlo.sine %x : tensor<3xf32>
        return %0 : tensor<3xf32>
      }""")
    x = np.arange(3, dtype=np.float32)
    for fast in (True, False):
        (y,) = tiduc.load(path).compile(fast=fast)(x)
        np.testing.assert_allclose(y, np.sin(x), rtol=1e-6)
    assert run(["compile", str(path), "-o", str(tmp_path / "wave.vmfb")]) == 0
    library = ["--target", "aarch64", "--emit", "static-library", "-o", str(tmp_path / "wave.o")]
    assert run(["compile", str(path), *library]) == 0
    assert "wave(" in (tmp_path / "wave.h").read_text()
