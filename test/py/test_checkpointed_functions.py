"""For functions with `tidu.checkpoint`, reverse mode stores arguments and results, and recomputes inner values."""

import numpy as np
import pytest
from harness.check_rule import run

from tiduc.loading import load

LAYERS = """func.func private @layer(%x: tensor<4xf64>, %w: tensor<4x4xf64>) -> tensor<4xf64> ATTRIBUTES {
  %m = stablehlo.dot_general %w, %x, contracting_dims = [1] x [0] : (tensor<4x4xf64>, tensor<4xf64>) -> tensor<4xf64>
  %0 = stablehlo.sine %m : tensor<4xf64>
  %1 = stablehlo.exponential %0 : tensor<4xf64>
  %2 = stablehlo.tanh %1 : tensor<4xf64>
  return %2 : tensor<4xf64>
}
func.func @main(%x: tensor<4xf64>, %w: tensor<4x4xf64>) -> tensor<4xf64> {
  BODY
  return %y : tensor<4xf64>
}"""
CALL = "call @layer({}, %w) : (tensor<4xf64>, tensor<4x4xf64>) -> tensor<4xf64>"
CHAIN = f"""%0 = {CALL.format("%x")}
  %1 = {CALL.format("%0")}
  %y = {CALL.format("%1")}"""
LOOP = f"""%zero = stablehlo.constant dense<0> : tensor<i32>
  %i, %y = stablehlo.while(%k = %zero, %h = %x) : tensor<i32>, tensor<4xf64>
  cond {{
    %n = stablehlo.constant dense<9> : tensor<i32>
    %c = stablehlo.compare LT, %k, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }} do {{
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %k, %one : tensor<i32>
    %z = func.{CALL.format("%h")}
    stablehlo.return %next, %z : tensor<i32>, tensor<4xf64>
  }}"""


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("body", [CHAIN, LOOP], ids=["chain", "loop"])
def test_values_are_equal(body: str, order: int) -> None:
    rng = np.random.default_rng(0)
    plain, marked = (
        load(LAYERS.replace("ATTRIBUTES", attributes).replace("BODY", body))
        for attributes in ("", "attributes {tidu.checkpoint}")
    )
    assert plain.text == marked.text
    for _ in range(order):
        plain, marked = plain.vjp(), marked.vjp()
    point = [rng.standard_normal(port.type.shape) for port in plain.inputs]
    for y, wanted in zip(run(marked, point), run(plain, point), strict=True):
        np.testing.assert_allclose(y, wanted, rtol=1e-12)
    assert marked.text.count("stablehlo.sine") > plain.text.count("stablehlo.sine")
    assert "tidu.checkpoint" not in marked.text


def test_a_loop_keeps_less() -> None:
    """The VJP of a loop stores fewer residuals per iteration if the called function has `tidu.checkpoint`."""
    plain, marked = (
        load(LAYERS.replace("ATTRIBUTES", attributes).replace("BODY", LOOP)).vjp().text
        for attributes in ("", "attributes {tidu.checkpoint}")
    )
    assert marked.count("dynamic_update_slice") < plain.count("dynamic_update_slice")


def test_a_budget_starts_from_what_checkpoints_leave() -> None:
    text = LAYERS.replace("ATTRIBUTES", "attributes {tidu.checkpoint}").replace("BODY", CHAIN)
    program = load(text).vjp()
    point = [np.random.default_rng(1).standard_normal(port.type.shape) for port in program.inputs]
    for y, wanted in zip(run(program.rematerialize("min"), point), run(program, point), strict=True):
        np.testing.assert_array_equal(y, wanted)
