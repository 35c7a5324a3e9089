"""Programs with strided windows of one element, and programs that read strided slices at computed indices.

Other ops read all elements of the same arrays.
"""

import numpy as np

STRIDED_WINDOWS = """
func.func @main(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> (tensor<2x2xf32>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.multiply %x, %y : tensor<4x4xf32>
  %1 = stablehlo.add %0, %y : tensor<4x4xf32>
  %2 = "stablehlo.reduce_window"(%1, %zero) <{
    window_dimensions = array<i64: 1, 1>, window_strides = array<i64: 2, 2>
  }> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %4 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %4 : tensor<f32>
  }) : (tensor<4x4xf32>, tensor<f32>) -> tensor<2x2xf32>
  %3 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<4x4xf32>, tensor<f32>) -> tensor<4xf32>
  return %2, %3 : tensor<2x2xf32>, tensor<4xf32>
}
"""

STRIDED_SCALING = """
func.func @main(%x: tensor<1x2x4xf32>, %y: tensor<1x2x4xf32>, %k: tensor<2x1x1xf32>)
    -> (tensor<1x2x2xf32>, tensor<2xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.multiply %x, %y : tensor<1x2x4xf32>
  %1 = stablehlo.add %0, %y : tensor<1x2x4xf32>
  %2 = stablehlo.convolution(%1, %k) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {stride = [2]}
    {batch_group_count = 1 : i64, feature_group_count = 2 : i64}
    : (tensor<1x2x4xf32>, tensor<2x1x1xf32>) -> tensor<1x2x2xf32>
  %3 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [0, 2]
    : (tensor<1x2x4xf32>, tensor<f32>) -> tensor<2xf32>
  return %2, %3 : tensor<1x2x2xf32>, tensor<2xf32>
}
"""

REVERSE = "%y = stablehlo.reverse %column, dims = [0] : tensor<4xf32>"
GATHER = """%y = "stablehlo.gather"(%column, %i) <{
    dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
    slice_sizes = array<i64: 1>
  }> : (tensor<4xf32>, tensor<4xi32>) -> tensor<4xf32>"""
COMPUTED_COLUMN = """%0 = stablehlo.dynamic_slice %x, %c, %t, sizes = [4, 1]
    : (tensor<4x5xf32>, tensor<i32>, tensor<i32>) -> tensor<4x1xf32>
  %column = stablehlo.reshape %0 : (tensor<4x1xf32>) -> tensor<4xf32>"""
EVERY_OTHER = """%0 = stablehlo.reshape %x : (tensor<4x5xf32>) -> tensor<20xf32>
  %column = stablehlo.slice %0 [1:9:2] : (tensor<20xf32>) -> tensor<4xf32>"""


def _read_by_index(slice_: str, read: str) -> str:
    """Returns a program that reads a strided slice in order, and by a gather or a reverse."""
    return f"""
func.func @main(%x: tensor<4x5xf32>, %t: tensor<i32>, %i: tensor<4xi32>) -> tensor<4xf32> {{
  %c = stablehlo.constant dense<0> : tensor<i32>
  {slice_}
  {read}
  %z = stablehlo.multiply %column, %y : tensor<4xf32>
  return %z : tensor<4xf32>
}}
"""


def _numbers(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.random.default_rng(0).integers(1, 9, shape).astype(np.float32)


_AT = (_numbers(4, 5), np.array(3, np.int32), np.array([2, 0, 3, 3], np.int32))
STRIDES = {
    "gather_of_computed_column": (_read_by_index(COMPUTED_COLUMN, GATHER), _AT, None),
    "reverse_of_computed_column": (_read_by_index(COMPUTED_COLUMN, REVERSE), _AT, None),
    "reverse_of_steps": (_read_by_index(EVERY_OTHER, REVERSE), _AT, None),
    "strided_windows_of_one_element": (STRIDED_WINDOWS, (_numbers(4, 4), _numbers(4, 4)), None),
    "strided_scaling": (STRIDED_SCALING, (_numbers(1, 2, 4), _numbers(1, 2, 4), _numbers(2, 1, 1)), None),
}
"""Maps the names of witnesses to programs and arguments.

None stands for the expected results, which the reference interpreter computes.
"""
