"""Tests XLA as an engine: the test cases of IREE, programs on several devices, and a missing installation."""

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness.example_files import EXAMPLES

from tiduc.backends.backend import Lowered, Options, Runnable, compile_program
from tiduc.backends.static_shapes import KEPT, at_each_shape
from tiduc.backends.xla.executable import XlaExecutable
from tiduc.cli import run
from tiduc.dialect.errors import CompileError, InputError, RequestError, TiducError
from tiduc.loading import load

jax = pytest.importorskip("jax")

PROGRAM = """
func.func @f(%x: tensor<2x3xf64> {tidu.name = "x"}, %p: tensor<2xi1>)
    -> (tensor<2x3xf64> {tidu.name = "y"}, tensor<2xi1>) {
  %y = chlo.sinh %x : tensor<2x3xf64> -> tensor<2x3xf64>
  %q = stablehlo.not %p : tensor<2xi1>
  return %y, %q : tensor<2x3xf64>, tensor<2xi1>
}
"""
X, P = np.arange(6.0).reshape(2, 3), np.array([True, False])


@pytest.fixture(scope="module")
def compiled() -> XlaExecutable:
    return load(PROGRAM).compile(engine="xla")


def test_values_and_names(compiled: XlaExecutable) -> None:
    assert str(compiled.signature) == "(x: 2x3xf64, p: 2xi1) -> (y: 2x3xf64, result1: 2xi1)"
    assert compiled.entry == "f" and compiled.donated == ()
    y, q = compiled(X, P)
    np.testing.assert_allclose(y, np.sinh(X), rtol=1e-14)
    assert type(y) is np.ndarray and y.dtype == np.float64 and q.tolist() == [False, True]
    y[0] = 1  # the caller may write into the result


def test_results_are_kept_and_passed_on(compiled: XlaExecutable) -> None:
    kept, _ = compiled.keep(X / 10, P)
    assert isinstance(kept, jax.Array)
    np.testing.assert_allclose(compiled(kept, P)[0], np.sinh(np.sinh(X / 10)), rtol=1e-14)


@pytest.mark.parametrize(
    "arguments, words",
    [
        ((), r"f takes 2 arguments \(x: 2x3xf64, p: 2xi1\), got 0"),
        ((X.T, P), r"argument 0 \(x\): expected 2x3xf64, got 3x2xf64"),
        ((X, P.astype(np.uint8)), r"argument 1 \(p\): expected 2xi1 \(dtype bool\), got dtype uint8"),
        ((jax.numpy.zeros((2, 3), np.float32), P), r"argument 0 \(x\): .* got dtype float32"),
    ],
)
def test_wrong_arguments_are_named(compiled: XlaExecutable, arguments: tuple[Any, ...], words: str) -> None:
    with pytest.raises(InputError, match=words):
        compiled(*arguments)


def test_values_are_those_of_iree() -> None:
    gradient = load(EXAMPLES / "mlp_f32.mlir").grad(value=True)
    with np.load(EXAMPLES / "mlp_f32.npz") as stored:
        arguments = [stored[f"input.{i}"] for i in range(8)]
    for ours, theirs in zip(
        gradient.compile(engine="xla")(*arguments), gradient.compile()(*arguments), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5 * float(np.max(np.abs(theirs))))


def sharded() -> str:
    """A program exported by JAX for four devices."""
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(np.array(jax.devices()[:4]), "rows")
    rows, whole = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in (("rows",), ()))

    def loss(x: Any, w: Any) -> Any:
        return (jax.numpy.sin(x @ w) ** 2).sum()

    x, w = (jax.ShapeDtypeStruct(shape, np.float32) for shape in ((8, 3), (3, 2)))
    return jax.jit(loss, in_shardings=(rows, whole), out_shardings=whole).lower(x, w).as_text()


def test_a_program_for_several_devices() -> None:
    program = load(sharded())
    generator = np.random.default_rng(0)
    x, w = (generator.standard_normal(shape).astype(np.float32) for shape in ((8, 3), (3, 2)))
    gradient = program.grad(value=True).compile(engine="xla")
    value, dx, dw = gradient.keep(x, w)
    assert {len(array.sharding.device_set) for array in (value, dx, dw)} == {4}
    slope = 2 * np.sin(x @ w) * np.cos(x @ w)
    for got, expected in ((value, np.sum(np.sin(x @ w) ** 2)), (dx, slope @ w.T), (dw, x.T @ slope)):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(gradient(dx, w)[1].shape, (8, 3))


def test_more_devices_than_there_are() -> None:
    program = sharded().replace("mhlo.num_partitions = 4", "mhlo.num_partitions = 1000")
    with pytest.raises(TiducError, match="is for 1000 devices; XLA has 8 of 'cpu' here"):
        load(program).compile(engine="xla")


def test_what_xla_refuses() -> None:
    program = PROGRAM.replace("stablehlo.not %p :", "stablehlo.custom_call @nowhere(%p) : (tensor<2xi1>) ->")
    with pytest.raises((CompileError, TiducError), match="nowhere"):
        load(program).compile(engine="xla")(X, P)
    with pytest.raises(RequestError, match="XLA has no target 'vulkan'; it has: cpu, "):
        load(PROGRAM).compile("vulkan", engine="xla")
    with pytest.raises(TiducError, match="XLA has no device of target 'hip'"):
        load(PROGRAM).compile("hip", engine="xla")


DYNAMIC = """func.func @main(%x: tensor<?x3xf32>, %w: tensor<3xf32>) -> tensor<?xf32> {
  %0 = stablehlo.sine %x : tensor<?x3xf32>
  %1 = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0] : (tensor<?x3xf32>, tensor<3xf32>) -> tensor<?xf32>
  return %1 : tensor<?xf32>
}"""


@pytest.mark.parametrize("engine", ["xla", "reference"])
def test_dynamic_shapes(engine: str) -> None:
    """The VJP of a program with dynamic shapes is correct for several sizes, and refuses wrong shapes.

    It is compiled at the first call with each shape.
    """
    run = load(DYNAMIC).vjp().compile(engine=engine)
    w = np.asarray([1, 2, 3], np.float32)
    for rows in (2, 5, 2):
        x, dy = np.full((rows, 3), 0.5, np.float32), np.ones(rows, np.float32)
        _, dx, dw = run(x, w, dy)
        np.testing.assert_allclose(dx, np.cos(x) * w, rtol=1e-6)
        np.testing.assert_allclose(dw, np.sin(x).sum(0), rtol=1e-6)
    with pytest.raises(InputError, match=r"argument 0 \(x\): expected \?x3xf32, got 2x4xf32"):
        run(np.zeros((2, 4), np.float32), w, dy)
    with pytest.raises(
        InputError, match=r"argument 2 .*expected size 5 of dimension 0, given the shape of x, got 2"
    ):
        run(np.zeros((5, 3), np.float32), w, dy)


def test_a_bounded_number_of_shapes_stays_compiled() -> None:
    compiled: list[int] = []

    def counted(program: Lowered) -> Runnable:
        compiled.append(program.signature.inputs[0].type.shape[0] or 0)
        return compile_program(program, "reference", Options())

    run = at_each_shape(load(DYNAMIC).lower(), counted)
    for rows in (1, 2, 1, *range(1, KEPT + 2), 1):
        run(np.zeros((rows, 3), np.float32), np.zeros(3, np.float32))
    assert compiled == [*range(1, KEPT + 2), 1]


def test_shapes_that_depend_on_values_are_refused() -> None:
    text = """func.func @main(%n: tensor<1xi32>) -> tensor<?xf32> {
  %0 = stablehlo.dynamic_iota %n, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}"""
    with pytest.raises(RequestError, match="a shape depends on the values of arguments"):
        load(text).compile(engine="xla")(np.asarray([3], np.int32))


def test_without_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(TiducError, match=r"needs JAX: pip install 'tiduc\[xla\]'"):
        importlib.import_module("tiduc.backends.xla.executable").XlaExecutable("", load(PROGRAM).signature)


def test_in_a_command(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "f.mlir").write_text(PROGRAM)
    command = ["run", str(tmp_path / "f.mlir"), "--input", "2x3xf64=0", "--input", "2xi1=1"]
    assert run([*command, "--engine", "xla"]) == 0
    assert capfd.readouterr().out == "y: 2x3xf64=[[0.0,0.0,0.0],[0.0,0.0,0.0]]\nresult1: 2xi1=false,false\n"
    assert run(["run", "--engine", "xla", "no.vmfb"]) == 1
    assert run(["check", str(tmp_path / "f.mlir"), "--engine", "xla"]) == 0


def test_the_reference_interpreter_runs_functions_of_other_names(tmp_path: Path) -> None:
    (tmp_path / "f.mlir").write_text("""func.func @f(%x: tensor<f64>) -> tensor<f64> {
      %y = stablehlo.sine %x : tensor<f64>
      return %y : tensor<f64>
    }""")
    assert run(["check", str(tmp_path / "f.mlir"), "--engine", "reference"]) == 0
