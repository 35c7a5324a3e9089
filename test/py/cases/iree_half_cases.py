"""Test cases with sums of f16 numbers, which IREE without tiduc adds in f16. In f16, 2,048 + 1 is rounded to 2,048."""

import numpy as np

from cases.iree_case import Case


def ones(*sizes: int) -> np.ndarray:
    return np.ones(sizes, np.float16)


WRONG = {
    "half_sum": Case(
        "reduce",
        "(%x: tensor<4096x8xf16>) -> tensor<8xf16>",
        """%zero = stablehlo.constant dense<0.0> : tensor<f16>
        %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0]
          : (tensor<4096x8xf16>, tensor<f16>) -> tensor<8xf16>
        return %0 : tensor<8xf16>""",
        (ones(4096, 8),),
        4096 * ones(8),
    ),
    "half_product": Case(
        "dot_general",
        "(%x: tensor<8x4096xf16>, %y: tensor<4096x8xf16>) -> tensor<8x8xf16>",
        """%0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
          : (tensor<8x4096xf16>, tensor<4096x8xf16>) -> tensor<8x8xf16>
        return %0 : tensor<8x8xf16>""",
        (ones(8, 4096), ones(4096, 8)),
        4096 * ones(8, 8),
    ),
    "half_convolution": Case(
        "convolution",
        "(%x: tensor<1x4x4x512xf16>, %k: tensor<3x3x512x2xf16>) -> tensor<1x2x2x2xf16>",
        """%0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
          window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
          : (tensor<1x4x4x512xf16>, tensor<3x3x512x2xf16>) -> tensor<1x2x2x2xf16>
        return %0 : tensor<1x2x2x2xf16>""",
        (ones(1, 4, 4, 512), ones(3, 3, 512, 2)),
        4608 * ones(1, 2, 2, 2),
    ),
    "half_window": Case(
        "reduce_window",
        "(%x: tensor<4097x2xf16>) -> tensor<2x2xf16>",
        """%zero = stablehlo.constant dense<0.0> : tensor<f16>
        %0 = "stablehlo.reduce_window"(%x, %zero) <{window_dimensions = array<i64: 4096, 1>}> ({
          ^bb0(%a: tensor<f16>, %b: tensor<f16>):
            %p = stablehlo.add %a, %b : tensor<f16>
            stablehlo.return %p : tensor<f16>
          }) : (tensor<4097x2xf16>, tensor<f16>) -> tensor<2x2xf16>
        return %0 : tensor<2x2xf16>""",
        (ones(4097, 2),),
        4096 * ones(2, 2),
    ),
}
