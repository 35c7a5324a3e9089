"""A VJP that is split into a forward and a backward program.

Their composition equals the VJP, and the residuals are listed.
"""

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from cases.control_flow_programs import PROGRAMS
from harness import xla
from harness.example_files import EXAMPLES

import tiduc
from tiduc.backends.reference.interpreter import evaluate
from tiduc.cli import run
from tiduc.runtime.arrays import random_array


def interpreted(program: "tiduc.Program", arguments: Any) -> Any:
    return evaluate(str(program), arguments)


def compiled(program: "tiduc.Program", arguments: Any) -> Any:
    return program.compile()(*arguments)


def check(
    program: "tiduc.Program", wrt: Any = None, evaluated: Any = interpreted, given: Any = ()
) -> "tiduc.Split":
    """Splits the program's VJP, and asserts that both parts in sequence give the results of the VJP.

    The primals are given or random.
    """
    rng = np.random.default_rng(0)
    vjp, parts = program.vjp(wrt), tiduc.split(program, wrt)
    arguments = [*given, *(random_array(x.type, rng) for x in vjp.signature.inputs[len(given) :])]
    primals, cotangents = arguments[: len(program.inputs)], arguments[len(program.inputs) :]
    n = len(program.outputs)
    expected = evaluated(vjp, arguments)
    outputs = evaluated(parts.forward, primals)
    gradients = evaluated(parts.backward, [*outputs[n:], *cotangents])
    assert len(outputs) == n + len(parts.residuals)
    for got, wanted in zip([*outputs[:n], *gradients], expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
    passed = parts.forward.signature.outputs[n:]
    assert [(x.name, x.type) for x in passed] == [(x.name, x.type) for x in parts.residuals]
    assert parts.backward.signature.inputs[: len(passed)] == passed
    assert parts.backward.signature.outputs == vjp.signature.outputs[n:]
    return parts


def function(body: str, inputs: str = "%x: tensor<4xf64>", results: str = "tensor<4xf64>") -> "tiduc.Program":
    return tiduc.load(f"func.func @main({inputs}) -> ({results}) {{\n{body}\n}}")


def names(parts: "tiduc.Split") -> list[str]:
    return [each.kind for each in parts.residuals]


def test_values_that_the_derivative_reads_are_residuals() -> None:
    parts = check(function("%0 = stablehlo.exponential %x : tensor<4xf64>\nreturn %0 : tensor<4xf64>"))
    assert names(parts) == ["output result0"]
    assert parts.table() == "result0.residual  4xf64  32 B  output result0\ntotal                    32 B\n"


def test_a_linear_program_has_no_residuals() -> None:
    parts = check(function("%0 = stablehlo.add %x, %x : tensor<4xf64>\nreturn %0 : tensor<4xf64>"))
    assert parts.residuals == ()
    assert str(parts.backward.signature) == "(result0.cotangent: 4xf64) -> (x.cotangent: 4xf64)"


def test_cheap_values_are_recomputed() -> None:
    """The backward program recomputes cheap values: the residuals contain the operand of a broadcast instead of its
    result, and tanh instead of 1 - tanh^2.
    """
    body = """
      %0 = stablehlo.tanh %x : tensor<4xf64>
      %1 = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f64>) -> tensor<4xf64>
      %2 = stablehlo.multiply %0, %1 : tensor<4xf64>
      return %2 : tensor<4xf64>"""
    parts = check(function(body, "%x: tensor<4xf64>, %s: tensor<f64>"))
    assert sorted(names(parts)) == ["input s", "stablehlo.tanh"]
    assert sum(each.bytes or 0 for each in parts.residuals) == 40


def test_a_gradient_that_is_a_value_of_the_forward_part() -> None:
    body = "%0 = stablehlo.sine %x : tensor<4xf64>\nreturn %0 : tensor<4xf64>"
    program = function(body).vjp()  # the VJP of this VJP also returns zeros and primal values
    check(program)


def test_inputs_chosen_by_name() -> None:
    body = "%0 = stablehlo.multiply %x, %y : tensor<4xf64>\nreturn %0 : tensor<4xf64>"
    program = function(body, "%x: tensor<4xf64>, %y: tensor<4xf64>")
    assert names(check(program, [0])) == ["input y"]
    assert names(check(program, [1])) == ["input x"]


def by_xla(program: "tiduc.Program", arguments: Any) -> Any:
    return xla.by_xla(str(program), arguments)


@pytest.mark.parametrize(
    "name", ["mlp_f64", "convnet_f64", pytest.param("transformer_f64", marks=pytest.mark.slow)]
)
def test_examples(name: str) -> None:
    program = tiduc.load(EXAMPLES / f"{name}.mlir")
    wrt = [port.name for port in program.inputs if "f64" in str(port.type)]
    parts = check(program, wrt, by_xla)
    assert "stablehlo.broadcast_in_dim" not in names(parts)
    assert len({each.name for each in parts.residuals}) == len(parts.residuals)


def test_a_loop_of_unknown_length_passes_its_checkpoints() -> None:
    parts = check(tiduc.load(EXAMPLES / "newton.mlir"), evaluated=compiled)
    assert "input a" in names(parts)
    assert "stablehlo.while" in str(parts.forward) and "stablehlo.while" in str(parts.backward)


@pytest.mark.parametrize("name", [name for name in PROGRAMS if "cond" in name or "case" in name])
def test_branches(name: str) -> None:
    """A VJP with branches can be split: the forward branch and the reverse branch have the same predicate, but are not
    merged.
    """
    function, arguments = PROGRAMS[name]
    with jax.enable_x64(True):
        text = jax.jit(function).lower(*arguments).as_text()
    check(tiduc.load(text), given=arguments)


def test_functions_that_are_called() -> None:
    program = tiduc.load("""
      func.func @main(%x: tensor<4xf64>) -> tensor<4xf64> {
        %0 = func.call @f(%x) : (tensor<4xf64>) -> tensor<4xf64>
        %1 = func.call @f(%0) : (tensor<4xf64>) -> tensor<4xf64>
        return %1 : tensor<4xf64>
      }
      func.func private @f(%x: tensor<4xf64>) -> tensor<4xf64> {
        %0 = stablehlo.sine %x : tensor<4xf64>
        %1 = stablehlo.multiply %0, %x : tensor<4xf64>
        return %1 : tensor<4xf64>
      }""")
    check(program)


def test_dynamic_sizes() -> None:
    body = "%0 = stablehlo.tanh %x : tensor<?x4xf64>\nreturn %0 : tensor<?x4xf64>"
    parts = tiduc.split(function(body, "%x: tensor<?x4xf64>", "tensor<?x4xf64>"))
    assert parts.residuals[0].bytes is None
    assert parts.table().endswith("0 B and dynamic sizes\n")


def test_each_part_can_be_differentiated() -> None:
    parts = tiduc.split(function("%0 = stablehlo.exponential %x : tensor<4xf64>\nreturn %0 : tensor<4xf64>"))
    derivative = parts.backward.jvp()
    y, seed, ones = np.full(4, 0.5), np.full(4, 2.0), np.ones(4)
    value, tangent = interpreted(derivative, [y, seed, ones, np.zeros(4)])
    np.testing.assert_allclose(value, seed * y)
    np.testing.assert_allclose(tangent, seed)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(EXAMPLES / "mlp_f32.mlir")
    folder = tmp_path / "parts"
    assert run(["split", file, "--wrt", "params['w1']", "-o", str(folder)]) == 0
    table = capsys.readouterr().out
    assert "input params['w2']" in table and table.splitlines()[-1].startswith("total")
    assert sorted(path.name for path in folder.iterdir()) == ["backward.mlir", "forward.mlir"]
    backward = tiduc.load(folder / "backward.mlir")
    assert [port.name for port in backward.outputs] == ["params['w1'].cotangent"]
    assert run(["split", file, "--wrt", "nothing", "-o", str(folder)]) == 1
    assert "unknown input 'nothing'" in capsys.readouterr().err
    assert run(["split", file, "-o", f"{file}/below"]) == 1
    assert "cannot write" in capsys.readouterr().err
