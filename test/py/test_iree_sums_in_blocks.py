"""Tests the accuracy of long f32 sums on CPUs. They are split into blocks, and the sums of blocks are added in f64."""

import numpy as np
import pytest
from harness.one_module import Joined, compiled_as_one
from harness.sources import source_of

import tiduc

RNG = np.random.default_rng(0)
EPS = float(np.finfo(np.float32).eps)

SUMS = {
    "columns": ("20000x8", "0", "8x"),
    "columns of a prime number": ("1009x3", "0", "3x"),
    "middle": ("4x3000x6", "1", "4x6x"),
    "rows": ("3x70000", "1", "3x"),
    "rows of an odd number": ("3x10007", "1", "3x"),
    "channels last": ("4x30x30x5", "0, 1, 2", "5x"),
    "channels first": ("4x5x48x64", "0, 2, 3", "5x"),
    "channels first, odd": ("3x5x19x17", "0, 2, 3", "5x"),
    "one image, odd": ("1x5x63x65", "0, 2, 3", "5x"),
    "one image": ("1x5x64x100", "0, 2, 3", "5x"),
    "rows before a dimension of one element": ("3x9001x1", "1", "3x1x"),
    "columns of one element": ("40x200x1x3", "0, 1, 2", "3x"),
    "few columns in the middle": ("640x7x3", "0, 1", "3x"),
    "first and last": ("100x7x30", "0, 2", "7x"),
    "a number": ("3000001", "0", ""),
}
"""For each name: the sizes of an array, the summed dimensions, and the sizes of the result."""


def summed(sizes: str, dimensions: str, result: str, element: str = "f32") -> str:
    x = f"tensor<{sizes}x{element}>"
    return f"""func.func @main(%x: {x}, %i: tensor<{element}>) -> tensor<{result}{element}> {{
      %0 = stablehlo.reduce(%x init: %i) applies stablehlo.add across dimensions = [{dimensions}]
        : ({x}, tensor<{element}>) -> tensor<{result}{element}>
      return %0 : tensor<{result}{element}>
    }}"""


@pytest.fixture(scope="module")
def sums() -> Joined:
    return compiled_as_one({name: summed(*each) for name, each in SUMS.items()})


@pytest.mark.parametrize("name", SUMS)
def test_errors_do_not_grow_with_the_number_of_elements(name: str, sums: Joined) -> None:
    """The relative error of a sum of positive numbers is at most 4 epsilon, and a NaN affects one sum.

    A simple loop over 20,000 elements would have an error of 60 to 200 epsilon.
    """
    sizes, dimensions, _ = SUMS[name]
    axes = tuple(int(d) for d in dimensions.split(", "))
    x = RNG.uniform(0, 1, [int(n) for n in sizes.split("x")]).astype(np.float32)
    init = np.float32(3)
    (found,) = sums[name](x, init)
    wanted = x.astype(np.float64).sum(axes) + 3
    assert np.max(np.abs(found - wanted) / wanted) <= 4 * EPS
    x.flat[5] = np.nan
    assert np.isnan(sums[name](x, init)[0]).sum() == 1


def test_gradients_toward_a_bias_before_a_normalization() -> None:
    """The gradient with respect to a bias before a normalization, which is 0, has an error of at most 969 epsilon.

    The gradient is a sum of 969 terms of about 1.
    """
    program = tiduc.load(NORMALIZED)
    arguments = [RNG.uniform(-1, 1, s).astype(np.float32) for s in ((3, 5, 19, 17), (5,), (3, 5, 19, 17))]
    (found,) = program.vjp(wrt="b").compile()(*arguments)[-1:]
    assert np.max(np.abs(found)) <= 969 * EPS


NORMALIZED = """func.func @main(%x: tensor<3x5x19x17xf32>, %b: tensor<5xf32>) -> tensor<3x5x19x17xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %n = stablehlo.constant dense<969.0> : tensor<5xf32>
  %0 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<5xf32>) -> tensor<3x5x19x17xf32>
  %1 = stablehlo.add %x, %0 : tensor<3x5x19x17xf32>
  %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [0, 2, 3]
    : (tensor<3x5x19x17xf32>, tensor<f32>) -> tensor<5xf32>
  %3 = stablehlo.divide %2, %n : tensor<5xf32>
  %4 = stablehlo.broadcast_in_dim %3, dims = [1] : (tensor<5xf32>) -> tensor<3x5x19x17xf32>
  %5 = stablehlo.subtract %1, %4 : tensor<3x5x19x17xf32>
  return %5 : tensor<3x5x19x17xf32>
}"""


@pytest.mark.parametrize("text", [summed("4096x8", "0", "8x", "f64"), summed("8x4096", "1", "8x")])
def test_other_sums_stay(text: str) -> None:
    """The pass does not rewrite sums of f64, or sums of rows, which IREE adds as vectors."""
    source = source_of(tiduc.load(text)).stablehlo
    assert isinstance(source, str)
    assert source.count("stablehlo.reduce(") == 1


SOFTMAX = """func.func @main(%x: tensor<8x9001xf32>) -> tensor<8x9001xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.exponential %x : tensor<8x9001xf32>
  %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<8x9001xf32>, tensor<f32>) -> tensor<8xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<8xf32>) -> tensor<8x9001xf32>
  %3 = stablehlo.divide %0, %2 : tensor<8x9001xf32>
  return %3 : tensor<8x9001xf32>
}"""


@pytest.mark.parametrize("text", [SOFTMAX, NORMALIZED.replace("19x17", "16x16").replace("969", "768")])
def test_sums_that_iree_fuses_with_ops_on_the_array_stay(text: str) -> None:
    source = source_of(tiduc.load(text)).stablehlo
    assert isinstance(source, str)
    assert "f64" not in source
