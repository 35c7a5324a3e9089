"""Programs with dispatches for which IREE without tiduc computes wrong results.

tiduc emits such dispatches for the kernels of loops, which `test_iree_loops_to_kernels.py` tests. The dispatches are
written here because no pass rewrites them.
"""

import numpy as np

TWO_PRODUCTS = """
func.func @main(
    %x: tensor<4x32xf32>, %v: tensor<32x64xf32>, %w: tensor<32x64xf32>, %a: tensor<3x4x64xf32>, %i: tensor<i32>
) -> tensor<3x4x64xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0 = flow.dispatch.region -> (tensor<3x4x64xf32>) {
    %1 = stablehlo.multiply %x, %x : tensor<4x32xf32>
    %2 = stablehlo.dot_general %1, %v, contracting_dims = [1] x [0]
      : (tensor<4x32xf32>, tensor<32x64xf32>) -> tensor<4x64xf32>
    %3 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<4x32xf32>, tensor<32x64xf32>) -> tensor<4x64xf32>
    %4 = stablehlo.add %3, %2 : tensor<4x64xf32>
    %5 = stablehlo.reshape %4 : (tensor<4x64xf32>) -> tensor<1x4x64xf32>
    %6 = stablehlo.dynamic_update_slice %a, %5, %i, %zero, %zero
      : (tensor<3x4x64xf32>, tensor<1x4x64xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<3x4x64xf32>
    flow.return %6 : tensor<3x4x64xf32>
  }
  return %0 : tensor<3x4x64xf32>
}
"""
X = np.arange(128, dtype=np.float32).reshape(4, 32)
V, W = np.full((32, 64), 1, np.float32), np.full((32, 64), 2, np.float32)
A = np.zeros((3, 4, 64), np.float32)
UPDATED = np.stack([A[0], X * X @ V + X @ W, A[0]])

DISPATCHES = {"products_in_a_dispatch": (TWO_PRODUCTS, (X, V, W, A, np.int32(1)), (UPDATED,))}
"""Maps the names of witnesses to programs, arguments and expected results."""
