"""Tests the activity analysis of linearize: which values depend on a tangent, and why the other values do not."""

from typing import Any

import pytest
from harness.example_files import EXAMPLES

from tiduc.activity import NO_INPUT, Activity, find_activity, functions
from tiduc.dialect.graph.graph import operations
from tiduc.dialect.mlir.context import parse, stage
from tiduc.loading import load
from tiduc.passes.materialize_merge import Zero
from tiduc.program import from_module

PROGRAM = """
func.func @main(%x: tensor<4xf32>, %i: tensor<4xi32>) -> (tensor<4xf32>, tensor<4xi1>, tensor<4xf32>) {
  %0 = stablehlo.sine %x : tensor<4xf32>
  %1 = stablehlo.floor %0 : tensor<4xf32>
  %2 = stablehlo.compare GT, %0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  %3 = stablehlo.convert %i : (tensor<4xi32>) -> tensor<4xf32>
  %4 = stablehlo.add %3, %1 : tensor<4xf32>
  %5 = stablehlo.convert %0 : (tensor<4xf32>) -> tensor<4xi32>
  return %0, %2, %4 : tensor<4xf32>, tensor<4xi1>, tensor<4xf32>
}
"""


@stage
def active_values(text: str, **positions: Any) -> tuple[Any, Activity]:
    module = parse(text)
    return module, find_activity(module, positions)


def by_name(module: Any, function: str = "main") -> dict[str, Any]:
    return {op.name: op for op in operations(functions(module)[function].regions[0].blocks[0])}


def test_why() -> None:
    module, activity = active_values(PROGRAM, main=[0])
    ops = by_name(module)
    assert activity.of(ops["stablehlo.sine"].result) == "active"
    assert activity.of(ops["stablehlo.add"].result) == "inactive"
    assert activity.why[ops["stablehlo.floor"]] == "the derivative of floor is zero wherever it exists"
    assert activity.why[ops["stablehlo.compare"]] == "the derivative of compare is zero wherever it exists"
    assert activity.why[ops["stablehlo.add"]] == NO_INPUT
    assert activity.why[ops["stablehlo.convert"]] == "4xi32 has no tangent"
    assert ops["stablehlo.sine"] not in activity.why


LOOP = """
func.func @main(%x: tensor<f32>, %c: tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0:3 = stablehlo.while(%a = %zero, %b = %zero, %d = %c) : tensor<f32>, tensor<f32>, tensor<f32>
    cond {
      %t = stablehlo.compare LT, %d, %x : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %t : tensor<i1>
    } do {
      %n = stablehlo.add %b, %x : tensor<f32>
      stablehlo.return %b, %n, %d : tensor<f32>, tensor<f32>, tensor<f32>
    }
  return %0#0, %0#1, %0#2 : tensor<f32>, tensor<f32>, tensor<f32>
}
"""


def test_activity_in_loops_reaches_a_fixed_point() -> None:
    module, activity = active_values(LOOP, main=[0])
    results = by_name(module)["stablehlo.while"].results
    # The first iteration makes the second carried value active; the second iteration makes the first one active.
    assert [activity.of(y) for y in results] == ["active", "active", "inactive"]


CALLS = """
func.func @main(%x: tensor<f32>, %c: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %0 = call @f(%c, %x) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %1 = call @g(%c) : (tensor<f32>) -> tensor<f32>
  return %0, %1 : tensor<f32>, tensor<f32>
}
func.func private @f(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.sine %a : tensor<f32>
  %1 = stablehlo.multiply %0, %b : tensor<f32>
  return %1 : tensor<f32>
}
func.func private @g(%a: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.cosine %a : tensor<f32>
  return %0 : tensor<f32>
}
"""


def test_calls() -> None:
    module, activity = active_values(CALLS, main=[0])
    assert activity.of(by_name(module, "f")["stablehlo.sine"].result) == "inactive"
    assert activity.of(by_name(module, "f")["stablehlo.multiply"].result) == "active"
    *calls, _ = operations(functions(module)["main"].regions[0].blocks[0])
    assert [activity.of(op.result) for op in calls] == ["active", "inactive"]


@pytest.mark.parametrize(
    ("text", "wrt"), [(PROGRAM, [0]), (LOOP, [0]), (LOOP, [1]), (CALLS, [0]), (CALLS, [1])]
)
def test_as_linearize_finds_it(text: str, wrt: list[int]) -> None:
    program = load(text)
    module, activity = active_values(text, main=wrt)
    *_, end = operations(functions(module)["main"].regions[0].blocks[0])
    ours = [activity.of(x) for x in end.operands if "f32" in str(x.type)]
    tangents = program.jvp(wrt).outputs[len(program.outputs) :]
    assert ours == ["inactive" if isinstance(port.value, Zero) else "active" for port in tangents]


@pytest.mark.parametrize("mode", ["jvp", "vjp"])
def test_graphs_of_derivatives(mode: str) -> None:
    program = load(EXAMPLES / "mlp_f32.mlir")
    derivative = getattr(program, mode)([0])
    activity = activity_of(derivative.graphs, program.name)
    for op in functions(derivative.graphs).values():
        for inner in operations(op.regions[0].blocks[0]):
            if "tidu.active" in inner.attributes:
                assert all(activity.of(y) == "linear" for y in inner.results)
            elif inner.name.startswith("stablehlo.") and len(inner.results):
                assert all(activity.of(y) != "linear" for y in inner.results)


@stage
def activity_of(module: Any, name: str) -> Activity:
    return find_activity(module, {name: [0]})


def test_a_lowered_derivative_is_told_which_inputs_are_tangents() -> None:
    program = load(CALLS).jvp([0])
    module = from_module(program.module).view.module
    activity = lowered_activity(module)
    *_, end = operations(functions(module)["main"].regions[0].blocks[0])
    assert [activity.of(x) for x in end.operands] == ["active", "inactive", "linear", "inactive"]


@stage
def lowered_activity(module: Any) -> Activity:
    return find_activity(module, {"main": [0]}, tangents={"main": [2]})
