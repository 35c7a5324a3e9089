"""Test cases with convolutions that have dynamic sizes."""

import numpy as np

from cases.iree_dynamic_case import Array, Case, numbers


def convolved(window: str, n: int) -> Case:
    """Returns a convolution of an NCHW array with a 3 x 2 kernel. One of the two dimensions has a dynamic size."""
    types = "tensor<?Bx2x?Nx6xf32>", "tensor<3x2x2x3xf32>", "tensor<?Bx?Mx5x3xf32>"
    body = f"""%0 = stablehlo.convolution(%x, %k) dim_numbers = [b, f, 0, 1]x[0, 1, i, o]->[b, 0, 1, f],
        window = {{{window}}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
        : ({types[0]}, {types[1]}) -> {types[2]}
      return %0 : {types[2]}"""
    signature = f"(%x: {types[0]}, %k: {types[1]}) -> {types[2]}"
    return Case(signature, body, (numbers(2, 2, 7, 6), numbers(3, 2, 2, 3)), {"B": 2, "N": 7, "M": n})


def in_groups(
    x: str, k: str, y: str, form: str, groups: tuple[int, int], arguments: tuple[Array, ...]
) -> Case:
    """Returns a convolution in feature or batch groups. The dynamic sizes are 3."""
    x, k, y = (f"tensor<{t}xf32>" for t in (x, k, y))
    counts = f"{{batch_group_count = {groups[1]} : i64, feature_group_count = {groups[0]} : i64}}"
    body = f"""%0 = stablehlo.convolution(%x, %k) {form} {counts} : ({x}, {k}) -> {y}
      return %0 : {y}"""
    return Case(f"(%x: {x}, %k: {k}) -> {y}", body, arguments, {"N": 3})


def counted(*shape: int) -> Array:
    return np.arange(np.prod(shape)).reshape(shape).astype(np.float32)


CONVOLUTIONS = {
    "convolution": convolved("", 5),
    "convolution_padded": convolved(
        "stride = [2, 1], pad = [[1, 2], [0, 1]], lhs_dilate = [2, 1], rhs_dilate = [2, 2], reverse = [true, false]",
        6,
    ),
    "convolution_depthwise": in_groups(
        "?Nx4x5x6",
        "8x1x3x3",
        "?Nx8x3x2",
        "dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 2]}",
        (4, 1),
        (numbers(3, 4, 5, 6), numbers(8, 1, 3, 3)),
    ),
    "convolution_in_groups": in_groups(
        "?Nx?Nx6x4",
        "3x3x2x6",
        "?Nx?Nx4x6",
        "dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], "
        "window = {pad = [[1, 1], [0, 0]], reverse = [true, false]}",
        (2, 1),
        (numbers(3, 3, 6, 4), numbers(3, 3, 2, 6)),
    ),
    "convolution_toward_kernel": in_groups(
        "?Nx4x5x6",
        "?Nx6x3x2",
        "6x2x3x3",
        "dim_numbers = [f, b, 0, 1]x[i, o, 0, 1]->[f, b, 0, 1], "
        "window = {rhs_dilate = [1, 2], pad = [[0, 0], [0, -1]]}",
        (1, 2),
        (numbers(3, 4, 5, 6), numbers(3, 6, 3, 2)),
    ),
    "convolution_cropped": in_groups(
        "?Nx4x6x5",
        "?Nx3x2x2",
        "4x3x2x7",
        "dim_numbers = [f, b, 0, 1]x[i, o, 0, 1]->[b, f, 0, 1], "
        "window = {pad = [[-1, 0], [2, -3]], lhs_dilate = [1, 2], rhs_dilate = [3, 1]}",
        (1, 1),
        (counted(3, 4, 6, 5), counted(3, 3, 2, 2)),
    ),
}
