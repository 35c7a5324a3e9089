"""Test cases with windows and padding that IREE without tiduc rejects, or for which it computes wrong results."""

import numpy as np

from cases.iree_case import INF, Array, Case

RNG = np.random.default_rng(0)
C2 = "tensor<2xcomplex<f64>>"

IMAGE = RNG.permutation(25).reshape(5, 5).astype(np.float32) // 4


def chosen(x: Array, source: Array) -> Array:
    """Computes a select_and_scatter with 3 x 3 windows and stride 2. Among equal maxima, the first one is selected."""
    y = np.zeros_like(x)
    padded = np.pad(x, 1, constant_values=-INF)
    for (i, j), v in np.ndenumerate(source):
        window = padded[2 * i : 2 * i + 3, 2 * j : 2 * j + 3]
        at = np.unravel_index(np.argmax(window), (3, 3))
        y[2 * i + at[0] - 1, 2 * j + at[1] - 1] += v
    return y


SOURCE = RNG.integers(1, 9, (3, 3)).astype(np.float32)

WRONG = {
    "reduce_ones": Case(
        "reduce",
        "(%x: tensor<f32>) -> tensor<f32>",
        """%zero = stablehlo.constant dense<0.0> : tensor<f32>
        %true = stablehlo.constant dense<true> : tensor<64xi1>
        %one = stablehlo.convert %true : (tensor<64xi1>) -> tensor<64xf32>
        %0 = stablehlo.reduce(%one init: %zero) applies stablehlo.add across dimensions = [0]
          : (tensor<64xf32>, tensor<f32>) -> tensor<f32>
        %1 = stablehlo.multiply %0, %x : tensor<f32>
        return %1 : tensor<f32>""",
        (np.ones((), np.float32),),
        np.float32(64),
    ),
    "reduce_window_ones": Case(
        "reduce_window",
        "(%x: tensor<1x1xf32>) -> tensor<1x1xf32>",
        """%zero = stablehlo.constant dense<0.0> : tensor<f32>
        %one = stablehlo.constant dense<1.0> : tensor<8x8xf32>
        %0 = "stablehlo.reduce_window"(%one, %zero) <{window_dimensions = array<i64: 8, 8>}> ({
          ^bb0(%a: tensor<f32>, %b: tensor<f32>):
            %p = stablehlo.add %a, %b : tensor<f32>
            stablehlo.return %p : tensor<f32>
          }) : (tensor<8x8xf32>, tensor<f32>) -> tensor<1x1xf32>
        %1 = stablehlo.multiply %0, %x : tensor<1x1xf32>
        return %1 : tensor<1x1xf32>""",
        (np.ones((1, 1), np.float32),),
        np.full((1, 1), 64, np.float32),
    ),
    "convolution_reversed_groups": Case(
        "convolution",
        "(%x: tensor<1x2x2xf32>, %k: tensor<1x2x2xf32>) -> tensor<1x2x1xf32>",
        """%0 = stablehlo.convolution(%x, %k) dim_numbers = [b, f, 0]x[i, o, 0]->[b, f, 0],
          window = {reverse = [true]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64}
          : (tensor<1x2x2xf32>, tensor<1x2x2xf32>) -> tensor<1x2x1xf32>
        return %0 : tensor<1x2x1xf32>""",
        (
            np.array([[[1, 10], [100, 1000]]], np.float32),
            np.array([[[2, 3], [4, 5]]], np.float32),
        ),
        np.array([[[23], [4500]]]),
    ),
    "pad_between_parts": Case(
        "pad",
        "(%x: tensor<1xcomplex<f64>>) -> tensor<1xcomplex<f64>>",
        """%z = stablehlo.constant dense<0.0> : tensor<f64>
        %r = stablehlo.real %x : (tensor<1xcomplex<f64>>) -> tensor<1xf64>
        %i = stablehlo.imag %x : (tensor<1xcomplex<f64>>) -> tensor<1xf64>
        %0 = stablehlo.pad %r, %z, low = [0], high = [0], interior = [1]
          : (tensor<1xf64>, tensor<f64>) -> tensor<1xf64>
        %1 = stablehlo.pad %i, %z, low = [0], high = [0], interior = [1]
          : (tensor<1xf64>, tensor<f64>) -> tensor<1xf64>
        %2 = stablehlo.complex %0, %1 : tensor<1xcomplex<f64>>
        return %2 : tensor<1xcomplex<f64>>""",
        (np.array([1 + 2j]),),
        np.array([1 + 2j]),
    ),
}

REJECTED = {
    "select_and_scatter": Case(
        "select_and_scatter",
        "(%x: tensor<5x5xf32>, %s: tensor<3x3xf32>) -> tensor<5x5xf32>",
        """%zero = stablehlo.constant dense<0.0> : tensor<f32>
        %0 = "stablehlo.select_and_scatter"(%x, %s, %zero) <{window_dimensions = array<i64: 3, 3>,
          window_strides = array<i64: 2, 2>, padding = dense<1> : tensor<2x2xi64>}> ({
          ^bb0(%a: tensor<f32>, %b: tensor<f32>):
            %p = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
            stablehlo.return %p : tensor<i1>
          }, {
          ^bb0(%a: tensor<f32>, %b: tensor<f32>):
            %p = stablehlo.add %a, %b : tensor<f32>
            stablehlo.return %p : tensor<f32>
          }) : (tensor<5x5xf32>, tensor<3x3xf32>, tensor<f32>) -> tensor<5x5xf32>
        return %0 : tensor<5x5xf32>""",
        (IMAGE, SOURCE),
        chosen(IMAGE, SOURCE),
    ),
    "cumsum_unsigned": Case(
        "reduce_window pad",
        "(%x: tensor<3xui32>) -> tensor<3xui32>",
        """%zero = stablehlo.constant dense<0> : tensor<ui32>
        %0 = "stablehlo.reduce_window"(%x, %zero) <{window_dimensions = array<i64: 3>,
          padding = dense<[[2, 0]]> : tensor<1x2xi64>}> ({
          ^bb0(%a: tensor<ui32>, %b: tensor<ui32>):
            %p = stablehlo.add %a, %b : tensor<ui32>
            stablehlo.return %p : tensor<ui32>
          }) : (tensor<3xui32>, tensor<ui32>) -> tensor<3xui32>
        return %0 : tensor<3xui32>""",
        (np.array([1, 2, 3], np.uint32),),
        np.array([1, 3, 6]),
    ),
    "pad_one_element": Case(
        "pad",
        "(%x: tensor<3xf32>) -> tensor<2x2xf32>",
        """%v = stablehlo.constant dense<0.0> : tensor<f32>
        %0 = stablehlo.slice %x [1:2] : (tensor<3xf32>) -> tensor<1xf32>
        %1 = stablehlo.reshape %0 : (tensor<1xf32>) -> tensor<1x1xf32>
        %2 = stablehlo.pad %1, %v, low = [1, 0], high = [0, 1], interior = [0, 0]
          : (tensor<1x1xf32>, tensor<f32>) -> tensor<2x2xf32>
        return %2 : tensor<2x2xf32>""",
        (np.arange(3, dtype=np.float32),),
        np.array([[0, 0], [1, 0]]),
    ),
    "pad_c64_zero": Case(
        "pad",
        "(%x: tensor<2xcomplex<f32>>) -> tensor<3xcomplex<f32>>",
        """%v = stablehlo.constant dense<(0.0, 0.0)> : tensor<complex<f32>>
        %0 = stablehlo.pad %x, %v, low = [1], high = [0], interior = [0]
          : (tensor<2xcomplex<f32>>, tensor<complex<f32>>) -> tensor<3xcomplex<f32>>
        return %0 : tensor<3xcomplex<f32>>""",
        (np.array([1 + 2j, 3], np.complex64),),
        np.array([0, 1 + 2j, 3]),
    ),
    "pad_c128": Case(
        "pad",
        f"(%x: {C2}, %v: tensor<complex<f64>>) -> tensor<3xcomplex<f64>>",
        f"""%0 = stablehlo.pad %x, %v, low = [1], high = [0], interior = [0]
          : ({C2}, tensor<complex<f64>>) -> tensor<3xcomplex<f64>>
        return %0 : tensor<3xcomplex<f64>>""",
        (np.array([1 + 2j, 3]), np.array(5j)),
        np.array([5j, 1 + 2j, 3]),
    ),
    "convolution_depthwise_widening": Case(
        "convolution",
        "(%x: tensor<1x4x2xf16>, %k: tensor<2x1x2xf16>) -> tensor<1x3x2xf32>",
        """%0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f],
          window = {} {batch_group_count = 1 : i64, feature_group_count = 2 : i64}
          : (tensor<1x4x2xf16>, tensor<2x1x2xf16>) -> tensor<1x3x2xf32>
        return %0 : tensor<1x3x2xf32>""",
        (np.arange(8, dtype=np.float16).reshape(1, 4, 2), np.full((2, 1, 2), 2049, np.float16)),
        2048 * np.array([[[2, 4], [6, 8], [10, 12]]], np.float32),
    ),
    "convolution_reversed": Case(
        "convolution",
        "(%x: tensor<1x1x3xf32>, %k: tensor<1x1x2xf32>) -> tensor<1x1x1xf32>",
        """%0 = stablehlo.convolution(%x, %k) dim_numbers = [b, f, 0]x[i, o, 0]->[b, f, 0],
          window = {stride = [2], reverse = [true]}
          {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
          : (tensor<1x1x3xf32>, tensor<1x1x2xf32>) -> tensor<1x1x1xf32>
        return %0 : tensor<1x1x1xf32>""",
        (np.array([[[1, 10, 100]]], np.float32), np.array([[[2, 3]]], np.float32)),
        np.array([[[23]]]),
    ),
    "convolution_excess": Case(
        "convolution",
        "(%x: tensor<1x6x1xf32>, %k: tensor<3x1x1xf32>) -> tensor<1x1x1xf32>",
        """%0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f],
          window = {stride = [4], pad = [[1, -1]]}
          {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
          : (tensor<1x6x1xf32>, tensor<3x1x1xf32>) -> tensor<1x1x1xf32>
        return %0 : tensor<1x1x1xf32>""",
        (
            np.arange(1, 7, dtype=np.float32).reshape(1, 6, 1),
            np.array([4, 2, 1], np.float32).reshape(3, 1, 1),
        ),
        np.array([[[4]]]),
    ),
    "reduce_window_excess": Case(
        "reduce_window",
        "(%x: tensor<2x4xf32>) -> tensor<2x1xf32>",
        """%v = stablehlo.constant dense<0.0> : tensor<f32>
        %0 = "stablehlo.reduce_window"(%x, %v) <{window_dimensions = array<i64: 1, 3>,
          window_strides = array<i64: 1, 2>}> ({
          ^bb0(%a: tensor<f32>, %b: tensor<f32>):
            %p = stablehlo.add %a, %b : tensor<f32>
            stablehlo.return %p : tensor<f32>
          }) : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x1xf32>
        return %0 : tensor<2x1xf32>""",
        (np.array([[1, 2, 3, 4], [5, 6, 7, 8]], np.float32),),
        np.array([[6], [18]]),
    ),
    "reduce_window_complex": Case(
        "reduce_window",
        "(%x: tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>>",
        """%v = stablehlo.constant dense<(0.0, 0.0)> : tensor<complex<f32>>
        %0 = "stablehlo.reduce_window"(%x, %v) <{window_dimensions = array<i64: 3>,
          padding = dense<1> : tensor<1x2xi64>}> ({
          ^bb0(%a: tensor<complex<f32>>, %b: tensor<complex<f32>>):
            %p = stablehlo.add %a, %b : tensor<complex<f32>>
            stablehlo.return %p : tensor<complex<f32>>
          }) : (tensor<2xcomplex<f32>>, tensor<complex<f32>>) -> tensor<2xcomplex<f32>>
        return %0 : tensor<2xcomplex<f32>>""",
        (np.array([1 + 2j, 3], np.complex64),),
        np.array([4 + 2j, 4 + 2j]),
    ),
    "convolution_complex": Case(
        "convolution",
        "(%x: tensor<1x4x1xcomplex<f32>>, %k: tensor<2x1x1xcomplex<f32>>) -> tensor<1x4x1xcomplex<f32>>",
        """%0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 0]]}
          {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
          : (tensor<1x4x1xcomplex<f32>>, tensor<2x1x1xcomplex<f32>>) -> tensor<1x4x1xcomplex<f32>>
        return %0 : tensor<1x4x1xcomplex<f32>>""",
        (
            np.array([1, 2j, 3, 1 + 1j], np.complex64).reshape(1, 4, 1),
            np.array([1j, 2], np.complex64).reshape(2, 1, 1),
        ),
        np.array([2, 5j, 4, 2 + 5j]).reshape(1, 4, 1),
    ),
}
