"""Programs with conditionals that return the same array twice.

IREE without tiduc rejects these programs or computes wrong results for them.
"""

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
"""Several results of a branch are the same array of zeros. The program updates one of these results."""

TABLE_OF_A_BRANCH = """
func.func @main(%p: tensor<i1>, %x: tensor<3xf32>, %s: tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<3xf32>) {
  %table = stablehlo.constant dense<[1.0, -4.0, 5.0]> : tensor<3xf32>
  %y:3 = "stablehlo.if"(%p) ({
    %double = stablehlo.add %s, %s : tensor<f32>
    %sum = stablehlo.add %x, %x : tensor<3xf32>
    %last = stablehlo.slice %sum [2:3] : (tensor<3xf32>) -> tensor<1xf32>
    %number = stablehlo.reshape %last : (tensor<1xf32>) -> tensor<f32>
    stablehlo.return %double, %number, %sum : tensor<f32>, tensor<f32>, tensor<3xf32>
  }, {
    stablehlo.return %s, %s, %table : tensor<f32>, tensor<f32>, tensor<3xf32>
  }) : (tensor<i1>) -> (tensor<f32>, tensor<f32>, tensor<3xf32>)
  return %y#0, %y#1, %y#2 : tensor<f32>, tensor<f32>, tensor<3xf32>
}
"""
"""One branch returns an array and a view of this array. The other branch returns a number twice, and a constant."""

RETURNED = {
    "table_of_a_branch": (
        TABLE_OF_A_BRANCH,
        (np.array(True), np.float32([1, 2, 3]), np.array(7, np.float32)),
        (np.array(14, np.float32), np.array(6, np.float32), np.float32([2, 4, 6])),
    ),
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
