"""A conditional that returns one array twice, which IREE alone gets wrong; see `iree_programs.py`."""

import numpy as np

V = "tensor<6xf32>"
RETURNED_TWICE = f"""
func.func @main(%x: {V}, %y: {V}, %u: tensor<1xf32>, %s: tensor<f32>, %k: tensor<i32>) -> {V} {{
  %c = stablehlo.constant dense<0.0> : {V}
  %0 = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> {V}
  %1:6 = "stablehlo.case"(%k) ({{
    stablehlo.return %y, %c, %c, %c, %c, %c : {", ".join([V] * 6)}
  }}, {{
    stablehlo.return %c, %0, %c, %0, %c, %x : {", ".join([V] * 6)}
  }}, {{
    stablehlo.return %y, %c, %c, %c, %c, %c : {", ".join([V] * 6)}
  }}) : (tensor<i32>) -> ({", ".join([V] * 6)})
  %2 = stablehlo.dynamic_update_slice %1#3, %u, %k : ({V}, tensor<1xf32>, tensor<i32>) -> {V}
  %3 = stablehlo.add %2, %1#5 : {V}
  return %3 : {V}
}}
"""
"""Two results of the first branch are one array of zeros, and the first of them is updated."""

RETURNED = {
    "update_of_a_result_of_two": (
        RETURNED_TWICE,
        (
            np.arange(6, dtype=np.float32),
            np.arange(6, dtype=np.float32) + 8,
            np.float32([100]),
            np.array(7, np.float32),
            np.array(0, np.int32),
        ),
        None,
    ),
}
