"""Tests which `reduce_window` ops over several arrays become loops in one dispatch on CPUs, and their values."""

from typing import Any

import numpy as np
import pytest
from harness.one_module import Joined, compiled_as_one, selected
from harness.sources import source_of

import tiduc
from tiduc.backends.reference import interpreter

RNG = np.random.default_rng(0)


def best(sizes: str, result: str, types: str, attributes: str, last: str = "%i") -> str:
    """The text of a program that finds the largest element of each window.

    The program also returns the element of a second array (or of a constant) at the position of the largest element.
    """
    v, n = types.split()
    x, i, y, j = (f"tensor<{s}x{t}>" for s, t in ((sizes, v), (sizes, n), (result, v), (result, n)))
    low, none = ("dense<-inf>" if "f" in v else "dense<-99>"), "dense<-1>" if "i" in n else "dense<-1.0>"
    return f"""func.func @main(%x: {x}, %i: {i}) -> ({y}, {j}) {{
      %low = stablehlo.constant {low.replace("-inf", "0xFF800000")} : tensor<{v}>
      %none = stablehlo.constant {none} : tensor<{n}>
      %threes = stablehlo.constant {none.replace("-1", "3")} : {i}
      %z = stablehlo.negate %x : {x}
      %y:2 = "stablehlo.reduce_window"(%z, {last}, %low, %none) <{{{attributes}}}> ({{
        ^bb0(%a: tensor<{v}>, %b: tensor<{n}>, %c: tensor<{v}>, %d: tensor<{n}>):
          %first = stablehlo.compare GE, %a, %c : (tensor<{v}>, tensor<{v}>) -> tensor<i1>
          %s = stablehlo.select %first, %a, %c : tensor<i1>, tensor<{v}>
          %t = stablehlo.select %first, %b, %d : tensor<i1>, tensor<{n}>
          stablehlo.return %s, %t : tensor<{v}>, tensor<{n}>
      }}) : ({x}, {i}, tensor<{v}>, tensor<{n}>) -> ({y}, {j})
      return %y#0, %y#1 : {y}, {j}
    }}"""


def attributes(window: list[int], strides: list[int], dilations: list[int], padding: list[list[int]]) -> str:
    names = {"window_dimensions": window, "window_strides": strides, "window_dilations": dilations}
    written = [f"{name} = array<i64: {', '.join(map(str, numbers))}>" for name, numbers in names.items()]
    return ", ".join([*written, f"padding = dense<{padding}> : tensor<{len(window)}x2xi64>"])


ONES, NONE = [1, 1, 1], [0, 0]
LAST = attributes([2, 3, 1], [1, 2, 1], ONES, [NONE, NONE, NONE])
HOLES = [2, 3, 1], [1, 2, 1], [3, 1, 1]
WINDOWS = {
    "channels last": (best("4x7x8", "3x3x8", "f32 i32", LAST), True),
    "of a constant": (best("4x7x8", "3x3x8", "i32 f32", LAST, "%threes"), True),
    "with holes": (best("7x7x9", "4x3x9", "f32 i64", attributes(*HOLES, [NONE, NONE, NONE])), True),
    "padded": (
        best("4x7x8", "3x4x8", "f32 i32", attributes([2, 3, 1], [1, 2, 1], ONES, [NONE, [1, 1], NONE])),
        False,
    ),
    "cut off, with holes": (
        best("7x7x9", "4x2x9", "f32 i64", attributes(*HOLES, [NONE, [-1, -1], NONE])),
        False,
    ),
    "channels first": (
        best("8x4x7", "8x3x4", "f32 i32", attributes([1, 2, 3], [1, 1, 2], ONES, [NONE, NONE, [1, 1]])),
        False,
    ),
    "of one type": (best("4x7x8", "3x3x8", "i32 i32", LAST), False),
}


@pytest.fixture(scope="module")
def compiled(request: pytest.FixtureRequest) -> Joined:
    names = selected(request, "test_windows_with_channels_last_are_loops")
    return compiled_as_one({name: text for name, (text, _) in WINDOWS.items() if name in names}, kernels=True)


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_with_channels_last_are_loops(name: str, compiled: Joined) -> None:
    text, loops = WINDOWS[name]
    program = tiduc.load(text)
    assert ("flow.dispatch" in str(source_of(program).stablehlo)) is loops
    arguments = []
    for value in program.signature.inputs:
        # Elements are distinct, because the order of equal elements is undefined.
        shape: Any = value.type.shape
        arguments.append(RNG.permutation(np.prod(shape)).reshape(shape).astype(value.type.dtype))
    expected = interpreter.evaluate(text, arguments)
    for y, z in zip(compiled[name](*arguments), expected, strict=True):
        np.testing.assert_array_equal(y, z)


def test_padding_after_a_window_of_all_elements() -> None:
    """Sums over windows of the array's full size are right if the array is padded at both ends."""
    text = """func.func @main(%x: tensor<2xf32>) -> tensor<4xf32> {
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.reduce_window"(%x, %c) <{window_dimensions = array<i64: 2>,
    padding = dense<[[1, 2]]> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<2xf32>, tensor<f32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}"""
    (y,) = tiduc.load(text).compile()(np.float32([3, 4]))
    np.testing.assert_array_equal(y, [3, 7, 4, 0])
