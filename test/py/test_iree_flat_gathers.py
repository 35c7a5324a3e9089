"""Tests gathers at several indices for each slice, which are computed at one index."""

import numpy as np
from harness.sources import source_of

import tiduc

PAIRS = """func.func @main(%x: tensor<6x5x7xf32>, %i: tensor<40xi64>, %j: tensor<40xi8>) -> tensor<40x7xf32> {
  %0 = stablehlo.convert %j : (tensor<40xi8>) -> tensor<40xi64>
  %1 = stablehlo.reshape %i : (tensor<40xi64>) -> tensor<40x1xi64>
  %2 = stablehlo.reshape %0 : (tensor<40xi64>) -> tensor<40x1xi64>
  %3 = stablehlo.concatenate %1, %2, dim = 1 : (tensor<40x1xi64>, tensor<40x1xi64>) -> tensor<40x2xi64>
  %4 = "stablehlo.gather"(%x, %3) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
      collapsed_slice_dims = [0, 1], start_index_map = [1, 0], index_vector_dim = 1>,
      slice_sizes = array<i64: 1, 1, 7>}> : (tensor<6x5x7xf32>, tensor<40x2xi64>) -> tensor<40x7xf32>
  return %4 : tensor<40x7xf32>
}"""
"""A gather at pairs of indices. The first index of a pair, %i, is along the second dimension."""

TRIPLES = """func.func @main(%x: tensor<6x5x7xf32>, %i: tensor<3x4x10xi32>) -> tensor<4x10xf32> {
  %0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1, 2],
      start_index_map = [0, 1, 2], index_vector_dim = 0>, slice_sizes = array<i64: 1, 1, 1>}>
    : (tensor<6x5x7xf32>, tensor<3x4x10xi32>) -> tensor<4x10xf32>
  return %0 : tensor<4x10xf32>
}"""
"""A gather of elements at triples of indices, which lie along the first dimension of %i."""


def columns(text: str) -> list[int]:
    """The numbers of indices for each slice of the gathers in a program compiled for a GPU, which has no kernels."""
    source = source_of(tiduc.load(text), "cuda").stablehlo
    return [
        line.count(",") + 1
        for line in str(source).split("start_index_map = [")[1:]
        for line in [line.split("]")[0]]
    ]


def test_gathers_at_pairs() -> None:
    """Each index of a pair is clamped to its dimension."""
    assert columns(PAIRS) == [1]
    draw = np.random.default_rng(0)
    x = draw.standard_normal((6, 5, 7)).astype(np.float32)
    i, j = draw.integers(-2, 8, 40), draw.integers(-2, 8, 40).astype(np.int8)
    expected = x[np.clip(j, 0, 5), np.clip(i, 0, 4)]
    np.testing.assert_array_equal(tiduc.load(PAIRS).compile()(x, i, j)[0], expected)


def test_gathers_of_elements() -> None:
    assert columns(TRIPLES) == [1]
    draw = np.random.default_rng(0)
    x, at = draw.standard_normal((6, 5, 7)).astype(np.float32), draw.integers(-2, 9, (3, 4, 10), np.int32)
    expected = x[tuple(np.clip(each, 0, n - 1) for each, n in zip(at, x.shape, strict=True))]
    np.testing.assert_array_equal(tiduc.load(TRIPLES).compile()(x, at)[0], expected)
