"""Programs with sums that IREE without tiduc rejects.

They are einsums that sum an operand, products with a broadcast array, and sums of many arrays.
"""

import numpy as np

EINSUM_OF_SUMS = """
func.func @main(%x: tensor<3x2x2xf32>, %y: tensor<2x4xf32>) -> tensor<2x2xf32> {
  %0 = stablehlo.unary_einsum %x, config = "abc->cb" : (tensor<3x2x2xf32>) -> tensor<2x2xf32>
  %1 = stablehlo.einsum %0, %y, config = "ab,bc->ba" : (tensor<2x2xf32>, tensor<2x4xf32>) -> tensor<2x2xf32>
  return %1 : tensor<2x2xf32>
}
"""
PRODUCT = """
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.broadcast_in_dim %y, dims = [1] : (tensor<7xf32>) -> tensor<4x7xf32>
  %1 = stablehlo.multiply %x, %0 : tensor<4x7xf32>
"""
SUM_OF_PRODUCTS = f"""
func.func @main(%x: tensor<4x7xf32>, %y: tensor<7xf32>) -> tensor<f32> {{
  {PRODUCT}
  %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [0, 1]
    : (tensor<4x7xf32>, tensor<f32>) -> tensor<f32>
  return %2 : tensor<f32>
}}
"""
SUM_AND_GREATEST = f"""
func.func @main(%x: tensor<4x7xf32>, %y: tensor<7xf32>) -> (tensor<f32>, tensor<f32>) {{
  {PRODUCT}
  %2:2 = stablehlo.reduce(%1 init: %zero), (%x init: %zero) across dimensions = [1, 0]
    : (tensor<4x7xf32>, tensor<4x7xf32>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
    reducer(%a: tensor<f32>, %b: tensor<f32>) (%c: tensor<f32>, %d: tensor<f32>) {{
      %3 = stablehlo.add %a, %b : tensor<f32>
      %4 = stablehlo.maximum %c, %d : tensor<f32>
      stablehlo.return %3, %4 : tensor<f32>, tensor<f32>
    }}
  return %2#0, %2#1 : tensor<f32>, tensor<f32>
}}
"""

CONVOLUTION_OF_BROADCAST = """
func.func @main(%x: tensor<1x2x3xf32>, %k: tensor<3xf32>) -> tensor<1x4x1xf32> {
  %0 = stablehlo.broadcast_in_dim %k, dims = [2] : (tensor<3xf32>) -> tensor<4x2x3xf32>
  %1 = stablehlo.convolution(%x, %0) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x2x3xf32>, tensor<4x2x3xf32>) -> tensor<1x4x1xf32>
  return %1 : tensor<1x4x1xf32>
}
"""
"""A convolution with one window, whose kernel repeats three numbers."""

CONVOLUTION_OF_BROADCAST_SUMS = """
func.func @main(%x: tensor<1x2x3xf32>, %k: tensor<3xf32>) -> tensor<1x4x1xf32> {
  %0 = stablehlo.broadcast_in_dim %k, dims = [2] : (tensor<3xf32>) -> tensor<4x2x3xf32>
  %1 = stablehlo.exponential %0 : tensor<4x2x3xf32>
  %2 = stablehlo.add %0, %1 : tensor<4x2x3xf32>
  %3 = stablehlo.convolution(%x, %2) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x2x3xf32>, tensor<4x2x3xf32>) -> tensor<1x4x1xf32>
  return %3 : tensor<1x4x1xf32>
}
"""
"""A convolution with one window. Three numbers are added to their exponentials and repeated as the kernel."""

CONVOLUTION_OF_BROADCAST_BY_POINTS = """
func.func @main(%x: tensor<1x2x3x3xf32>, %k: tensor<3xf32>) -> tensor<1x4x3x1xf32> {
  %0 = stablehlo.broadcast_in_dim %k, dims = [3] : (tensor<3xf32>) -> tensor<4x2x1x3xf32>
  %1 = stablehlo.convolution(%x, %0) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x2x3x3xf32>, tensor<4x2x1x3xf32>) -> tensor<1x4x3x1xf32>
  return %1 : tensor<1x4x3x1xf32>
}
"""
"""A convolution whose kernel is a broadcast array.

It has one window along one dimension. Along the other dimension, the kernel has the size 1.
"""

SUM_OF_MANY_ARRAYS = f"""
func.func @main({", ".join(f"%a{i}: tensor<f32>" for i in range(40))}) -> tensor<f32> {{
  %s0 = stablehlo.negate %a0 : tensor<f32>
  {"".join(f"%s{i} = stablehlo.add %s{i - 1}, %a{i} : tensor<f32> " for i in range(1, 40))}
  return %s39 : tensor<f32>
}}
"""

PRODUCT_OF_UNSIGNED = """
func.func @main(%x: tensor<3xui8>, %y: tensor<3x2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.convert %x : (tensor<3xui8>) -> tensor<3xf32>
  %1 = stablehlo.dot_general %0, %y, contracting_dims = [0] x [0] : (tensor<3xf32>, tensor<3x2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
"""
PRODUCT_OF_PREDICATES = """
func.func @main(%x: tensor<2x3xf32>, %p: tensor<2x3xi1>) -> tensor<2xf32> {
  %0 = stablehlo.convert %p : (tensor<2x3xi1>) -> tensor<2x3xf32>
  %1 = stablehlo.dot_general %x, %0, batching_dims = [0] x [0], contracting_dims = [1] x [1]
    : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
"""


def _numbers(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.random.default_rng(1).permutation(int(np.prod(shape))).reshape(shape).astype(np.float32)


_CUBE, _MATRIX = _numbers(3, 2, 2), _numbers(2, 4)

SUMS = {
    "einsum_of_sums": (EINSUM_OF_SUMS, (_CUBE, _MATRIX), (_CUBE.sum(0) * _MATRIX.sum(1)[:, None],)),
    "sum_of_broadcast_products": (SUM_OF_PRODUCTS, (_numbers(4, 7), _numbers(7)), None),
    "sum_and_greatest_of_broadcast_products": (SUM_AND_GREATEST, (_numbers(4, 7), _numbers(7)), None),
    "convolution_of_broadcast": (CONVOLUTION_OF_BROADCAST, (_numbers(1, 2, 3), _numbers(3)), None),
    "convolution_of_broadcast_by_points": (
        CONVOLUTION_OF_BROADCAST_BY_POINTS,
        (_numbers(1, 2, 3, 3), _numbers(3)),
        None,
    ),
    "convolution_of_broadcast_sums": (CONVOLUTION_OF_BROADCAST_SUMS, (_numbers(1, 2, 3), _numbers(3)), None),
    "product_of_unsigned": (PRODUCT_OF_UNSIGNED, (np.uint8([200, 3, 4]), _numbers(3, 2)), None),
    "product_of_predicates": (
        PRODUCT_OF_PREDICATES,
        (_numbers(2, 3), np.array([[True, False, True], [False, True, True]])),
        None,
    ),
    "sum_of_many_arrays": (SUM_OF_MANY_ARRAYS, tuple(_numbers(40)), None),
}
