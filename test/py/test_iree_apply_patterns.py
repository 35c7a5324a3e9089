"""Tests the order of rewrite patterns, and which apply to ops with dynamic shapes, on a target, or without `fast`."""

import pytest

from tiduc.backends.iree.apply_patterns import apply_patterns
from tiduc.backends.iree.emit.emitter import DYNAMIC, ON_SPIRV, PATTERNS
from tiduc.backends.iree.settings import Settings
from tiduc.dialect.graph.functions import outer_first
from tiduc.dialect.mlir.context import parse, stage

TANH = """func.func @main(%x: tensor<9xf64>) -> tensor<9xf64> {
  %0 = stablehlo.tanh %x : tensor<9xf64>
  return %0 : tensor<9xf64>
}"""


def ops_after(text: str, settings: Settings) -> set[str]:
    module = parse(text)
    stage(apply_patterns)(module, settings)
    return {op.name for op in outer_first(module.operation)}


def test_patterns_for_speed_apply_only_with_that_setting() -> None:
    assert "stablehlo.tanh" not in ops_after(TANH, Settings())
    assert "stablehlo.tanh" in ops_after(TANH, Settings(fast=False))


@pytest.mark.parametrize("op", ["pad", "convolution", "reduce_window"])
def test_patterns_for_dynamic_shapes_come_first(op: str) -> None:
    places = [entry.where for entry in PATTERNS[f"stablehlo.{op}"]]
    assert places[0] == DYNAMIC and DYNAMIC not in places[places.count(DYNAMIC) :]


def test_patterns_for_speed_come_after_those_for_spirv_and_before_all_others() -> None:
    for op, entries in PATTERNS.items():
        order = [0 if e.where == DYNAMIC else 1 if e.where == ON_SPIRV else 3 - e.is_fast for e in entries]
        assert order == sorted(order), op


def test_emitted_ops_get_patterns_in_turn() -> None:
    """After all patterns for CPUs, no exponential_minus_one of f64 remains, also not in the code that patterns emit."""
    text = TANH.replace("stablehlo.tanh", "stablehlo.exponential_minus_one")
    assert "stablehlo.exponential_minus_one" not in ops_after(text, Settings())
