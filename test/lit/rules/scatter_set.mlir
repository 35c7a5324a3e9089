// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// Updates that may meet: their numbers are scattered to see which of them wins.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<4x3xf64>
// JVP-NEXT:    %[[C:.*]] = stablehlo.constant dense<0> : tensor<4x3xi32>
// JVP-NEXT:    %[[C_0:.*]] = stablehlo.constant dense<0> : tensor<5x1xi32>
// JVP-NEXT:    %[[C_1:.*]] = stablehlo.constant dense<3> : tensor<5x1xi32>
// JVP-NEXT:    %[[C_2:.*]] = stablehlo.constant dense<0> : tensor<5x3xi32>
// JVP-NEXT:    %[[C_3:.*]] = stablehlo.constant dense<1> : tensor<5x3xi32>
// JVP-NEXT:    %[[CST_4:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<5x3xf64>
// JVP-NEXT:    %[[V0:.*]] = "stablehlo.scatter"(%arg0, %arg1, %arg2) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
// JVP-NEXT:    ^bb0(%arg5: tensor<f64>, %arg6: tensor<f64>):
// JVP-NEXT:    stablehlo.return %arg6 : tensor<f64>
// JVP-NEXT:    }) : (tensor<4x3xf64>, tensor<5x1xi32>, tensor<5x3xf64>) -> tensor<4x3xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.iota dim = 0 : tensor<15xi32>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.reshape %[[V1]] : (tensor<15xi32>) -> tensor<5x3xi32>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.add %[[V2]], %[[C_3]] : tensor<5x3xi32>
// JVP-NEXT:    %[[V4:.*]] = stablehlo.clamp %[[C_0]], %arg1, %[[C_1]] : tensor<5x1xi32>
// JVP-NEXT:    %[[V5:.*]] = "stablehlo.scatter"(%[[C]], %arg1, %[[V3]]) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
// JVP-NEXT:    ^bb0(%arg5: tensor<i32>, %arg6: tensor<i32>):
// JVP-NEXT:    stablehlo.return %arg6 : tensor<i32>
// JVP-NEXT:    }) : (tensor<4x3xi32>, tensor<5x1xi32>, tensor<5x3xi32>) -> tensor<4x3xi32>
// JVP-NEXT:    %[[V6:.*]] = "stablehlo.gather"(%[[V5]], %[[V4]]) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 3>}> : (tensor<4x3xi32>, tensor<5x1xi32>) -> tensor<5x3xi32>
// JVP-NEXT:    %[[V7:.*]] = stablehlo.compare EQ, %[[V4]], %arg1 : (tensor<5x1xi32>, tensor<5x1xi32>) -> tensor<5x1xi1>
// JVP-NEXT:    %[[V8:.*]] = stablehlo.reshape %[[V7]] : (tensor<5x1xi1>) -> tensor<5xi1>
// JVP-NEXT:    %[[V9:.*]] = stablehlo.broadcast_in_dim %[[V8]], dims = [0] : (tensor<5xi1>) -> tensor<5x3xi1>
// JVP-NEXT:    %[[V10:.*]] = stablehlo.select %[[V9]], %[[V6]], %[[C_2]] : tensor<5x3xi1>, tensor<5x3xi32>
// JVP-NEXT:    %[[V11:.*]] = stablehlo.compare EQ, %[[V10]], %[[V3]] : (tensor<5x3xi32>, tensor<5x3xi32>) -> tensor<5x3xi1>
// JVP-NEXT:    %[[V12:.*]] = stablehlo.select %[[V11]], %arg4, %[[CST_4]] : tensor<5x3xi1>, tensor<5x3xf64>
// JVP-NEXT:    %[[V13:.*]] = stablehlo.compare EQ, %[[V5]], %[[C]] : (tensor<4x3xi32>, tensor<4x3xi32>) -> tensor<4x3xi1>
// JVP-NEXT:    %[[V14:.*]] = stablehlo.select %[[V13]], %arg3, %[[CST]] : tensor<4x3xi1>, tensor<4x3xf64>
// JVP-NEXT:    %[[V15:.*]] = "stablehlo.scatter"(%[[V14]], %arg1, %[[V12]]) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
// JVP-NEXT:    ^bb0(%arg5: tensor<f64>, %arg6: tensor<f64>):
// JVP-NEXT:    %[[V16:.*]] = stablehlo.add %arg5, %arg6 : tensor<f64>
// JVP-NEXT:    stablehlo.return %[[V16]] : tensor<f64>
// JVP-NEXT:    }) : (tensor<4x3xf64>, tensor<5x1xi32>, tensor<5x3xf64>) -> tensor<4x3xf64>
// JVP-NEXT:    return %[[V0]], %[[V15]] : tensor<4x3xf64>, tensor<4x3xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[C:.*]] = stablehlo.constant dense<0> : tensor<5x3xi32>
// VJP-NEXT:    %[[C_0:.*]] = stablehlo.constant dense<0> : tensor<5x1xi32>
// VJP-NEXT:    %[[C_1:.*]] = stablehlo.constant dense<3> : tensor<5x1xi32>
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<5x3xf64>
// VJP-NEXT:    %[[C_2:.*]] = stablehlo.constant dense<1> : tensor<5x3xi32>
// VJP-NEXT:    %[[C_3:.*]] = stablehlo.constant dense<0> : tensor<4x3xi32>
// VJP-NEXT:    %[[CST_4:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<4x3xf64>
// VJP-NEXT:    %[[V0:.*]] = "stablehlo.scatter"(%arg0, %arg1, %arg2) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
// VJP-NEXT:    ^bb0(%arg4: tensor<f64>, %arg5: tensor<f64>):
// VJP-NEXT:    stablehlo.return %arg5 : tensor<f64>
// VJP-NEXT:    }) : (tensor<4x3xf64>, tensor<5x1xi32>, tensor<5x3xf64>) -> tensor<4x3xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.iota dim = 0 : tensor<15xi32>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.reshape %[[V1]] : (tensor<15xi32>) -> tensor<5x3xi32>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.add %[[V2]], %[[C_2]] : tensor<5x3xi32>
// VJP-NEXT:    %[[V4:.*]] = "stablehlo.scatter"(%[[C_3]], %arg1, %[[V3]]) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
// VJP-NEXT:    ^bb0(%arg4: tensor<i32>, %arg5: tensor<i32>):
// VJP-NEXT:    stablehlo.return %arg5 : tensor<i32>
// VJP-NEXT:    }) : (tensor<4x3xi32>, tensor<5x1xi32>, tensor<5x3xi32>) -> tensor<4x3xi32>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.compare EQ, %[[V4]], %[[C_3]] : (tensor<4x3xi32>, tensor<4x3xi32>) -> tensor<4x3xi1>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.select %[[V5]], %arg3, %[[CST_4]] : tensor<4x3xi1>, tensor<4x3xf64>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.clamp %[[C_0]], %arg1, %[[C_1]] : tensor<5x1xi32>
// VJP-NEXT:    %[[V8:.*]] = "stablehlo.gather"(%arg3, %[[V7]]) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 3>}> : (tensor<4x3xf64>, tensor<5x1xi32>) -> tensor<5x3xf64>
// VJP-NEXT:    %[[V9:.*]] = stablehlo.compare EQ, %[[V7]], %arg1 : (tensor<5x1xi32>, tensor<5x1xi32>) -> tensor<5x1xi1>
// VJP-NEXT:    %[[V10:.*]] = stablehlo.reshape %[[V9]] : (tensor<5x1xi1>) -> tensor<5xi1>
// VJP-NEXT:    %[[V11:.*]] = stablehlo.broadcast_in_dim %[[V10]], dims = [0] : (tensor<5xi1>) -> tensor<5x3xi1>
// VJP-NEXT:    %[[V12:.*]] = stablehlo.select %[[V11]], %[[V8]], %[[CST]] : tensor<5x3xi1>, tensor<5x3xf64>
// VJP-NEXT:    %[[V13:.*]] = "stablehlo.gather"(%[[V4]], %[[V7]]) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 3>}> : (tensor<4x3xi32>, tensor<5x1xi32>) -> tensor<5x3xi32>
// VJP-NEXT:    %[[V14:.*]] = stablehlo.select %[[V11]], %[[V13]], %[[C]] : tensor<5x3xi1>, tensor<5x3xi32>
// VJP-NEXT:    %[[V15:.*]] = stablehlo.compare EQ, %[[V14]], %[[V3]] : (tensor<5x3xi32>, tensor<5x3xi32>) -> tensor<5x3xi1>
// VJP-NEXT:    %[[V16:.*]] = stablehlo.select %[[V15]], %[[V12]], %[[CST]] : tensor<5x3xi1>, tensor<5x3xf64>
// VJP-NEXT:    return %[[V0]], %[[V6]], %[[V16]] : tensor<4x3xf64>, tensor<4x3xf64>, tensor<5x3xf64>

func.func @main(%x: tensor<4x3xf64>, %i: tensor<5x1xi32>, %u: tensor<5x3xf64>) -> tensor<4x3xf64> {
  %0 = "stablehlo.scatter"(%x, %i, %u) ({
    ^bb0(%a: tensor<f64>, %b: tensor<f64>):
      stablehlo.return %b : tensor<f64>
  }) {
    scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1>
  } : (tensor<4x3xf64>, tensor<5x1xi32>, tensor<5x3xf64>) -> tensor<4x3xf64>
  return %0 : tensor<4x3xf64>
}
