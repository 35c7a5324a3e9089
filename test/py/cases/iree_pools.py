"""A program with two max-pools whose results have the same size. IREE without tiduc rejects this program."""

import numpy as np

from cases.iree_case import Array

POOLS_OF_EQUAL_SIZES = """
func.func @main(%x: tensor<192x55x55xf32>) -> (tensor<192x27x27xf32>, tensor<192x27x27xf32>) {
  %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = "stablehlo.reduce_window"(%x, %least) <{
    window_dimensions = array<i64: 1, 3, 3>, window_strides = array<i64: 1, 2, 2>
  }> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %2 = stablehlo.maximum %a, %b : tensor<f32>
    stablehlo.return %2 : tensor<f32>
  }) : (tensor<192x55x55xf32>, tensor<f32>) -> tensor<192x27x27xf32>
  %1 = "stablehlo.reduce_window"(%0, %least) <{
    padding = dense<[[0, 0], [1, 1], [1, 1]]> : tensor<3x2xi64>, window_dimensions = array<i64: 1, 3, 3>
  }> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %2 = stablehlo.maximum %a, %b : tensor<f32>
    stablehlo.return %2 : tensor<f32>
  }) : (tensor<192x27x27xf32>, tensor<f32>) -> tensor<192x27x27xf32>
  return %0, %1 : tensor<192x27x27xf32>, tensor<192x27x27xf32>
}
"""


def pooled(x: Array, stride: int) -> Array:
    """Returns the largest element of each 3 x 3 window."""
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (1, 2))
    return np.asarray(windows[:, ::stride, ::stride].max((-2, -1)))


IMAGE = np.random.default_rng(1).permutation(192 * 55 * 55).reshape(192, 55, 55).astype(np.float32)
_POOLED = pooled(IMAGE, 2)
POOLS = _POOLED, pooled(np.pad(_POOLED, ((0, 0), (1, 1), (1, 1)), constant_values=-np.inf), 1)
"""The results of the program for `IMAGE`. The reference interpreter would require 12 s to compute them."""
