"""dynamic_gather with slice sizes that are constant, and with slice sizes that are not."""

import numpy as np
from harness.check_rule import check_rule

X, INDICES, Y = "tensor<5x3xf64>", "tensor<4x1xi32>", "tensor<4x2xf64>"


def program(more: str, sizes: str = "") -> str:
    return f"""
    func.func @main(%x: {X}, %i: {INDICES}{more}) -> {Y} {{
      {sizes}
      %0 = "stablehlo.dynamic_gather"(%x, %i, %n) {{dimension_numbers = #stablehlo.gather<offset_dims = [1],
        collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>}}
        : ({X}, {INDICES}, tensor<2xi32>) -> {Y}
      return %0 : {Y}
    }}"""


def test_constant_sizes() -> None:
    """Derivatives are right if one row is gathered twice, and if an index is out of range and therefore clamped."""
    indices = np.array([[1], [4], [1], [7]], np.int32)
    text = program("", "%n = stablehlo.constant dense<[1, 2]> : tensor<2xi32>")
    check_rule(text, np.random.default_rng(0).standard_normal([5, 3]), indices)


def test_other_sizes() -> None:
    indices, sizes = np.array([[1], [4], [1], [7]], np.int32), np.array([1, 2], np.int32)
    x = np.random.default_rng(0).standard_normal([5, 3])
    check_rule(program(", %n: tensor<2xi32>"), x, indices, sizes)
