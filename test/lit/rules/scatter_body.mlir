// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// With unique indices, the body is applied to whole tensors of elements and their updates.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[C:.*]] = stablehlo.constant dense<1> : tensor<4xi32>
// JVP-NEXT:    %[[C_0:.*]] = stablehlo.constant dense<0> : tensor<5x1xi32>
// JVP-NEXT:    %[[C_1:.*]] = stablehlo.constant dense<3> : tensor<5x1xi32>
// JVP-NEXT:    %[[C_2:.*]] = stablehlo.constant dense<0> : tensor<5xi32>
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<5xf64>
// JVP-NEXT:    %[[V0:.*]] = "stablehlo.scatter"(%arg0, %arg1, %arg2) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = true}> ({
// JVP-NEXT:    ^bb0(%arg5: tensor<f64>, %arg6: tensor<f64>):
// JVP-NEXT:    %[[V20:.*]] = stablehlo.divide %arg5, %arg6 : tensor<f64>
// JVP-NEXT:    stablehlo.return %[[V20]] : tensor<f64>
// JVP-NEXT:    }) : (tensor<4xf64>, tensor<5x1xi32>, tensor<5xf64>) -> tensor<4xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.clamp %[[C_0]], %arg1, %[[C_1]] : tensor<5x1xi32>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.iota dim = 0 : tensor<4xi32>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.add %[[V2]], %[[C]] : tensor<4xi32>
// JVP-NEXT:    %[[V4:.*]] = "stablehlo.gather"(%[[V3]], %[[V1]]) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1>}> : (tensor<4xi32>, tensor<5x1xi32>) -> tensor<5xi32>
// JVP-NEXT:    %[[V5:.*]] = stablehlo.compare EQ, %[[V1]], %arg1 : (tensor<5x1xi32>, tensor<5x1xi32>) -> tensor<5x1xi1>
// JVP-NEXT:    %[[V6:.*]] = stablehlo.reshape %[[V5]] : (tensor<5x1xi1>) -> tensor<5xi1>
// JVP-NEXT:    %[[V7:.*]] = stablehlo.select %[[V6]], %[[V4]], %[[C_2]] : tensor<5xi1>, tensor<5xi32>
// JVP-NEXT:    %[[V8:.*]] = stablehlo.compare NE, %[[V7]], %[[C_2]] : (tensor<5xi32>, tensor<5xi32>) -> tensor<5xi1>
// JVP-NEXT:    %[[V9:.*]] = stablehlo.select %[[V8]], %arg2, %[[CST]] : tensor<5xi1>, tensor<5xf64>
// JVP-NEXT:    %[[V10:.*]] = stablehlo.select %[[V8]], %arg4, %[[CST]] : tensor<5xi1>, tensor<5xf64>
// JVP-NEXT:    %[[V11:.*]] = "stablehlo.gather"(%arg0, %[[V1]]) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1>}> : (tensor<4xf64>, tensor<5x1xi32>) -> tensor<5xf64>
// JVP-NEXT:    %[[V12:.*]] = stablehlo.select %[[V6]], %[[V11]], %[[CST]] : tensor<5xi1>, tensor<5xf64>
// JVP-NEXT:    %[[V13:.*]] = stablehlo.divide %[[V12]], %[[V9]] : tensor<5xf64>
// JVP-NEXT:    %[[V14:.*]] = stablehlo.multiply %[[V13]], %[[V10]] : tensor<5xf64>
// JVP-NEXT:    %[[V15:.*]] = "stablehlo.gather"(%arg3, %[[V1]]) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1>}> : (tensor<4xf64>, tensor<5x1xi32>) -> tensor<5xf64>
// JVP-NEXT:    %[[V16:.*]] = stablehlo.select %[[V6]], %[[V15]], %[[CST]] : tensor<5xi1>, tensor<5xf64>
// JVP-NEXT:    %[[V17:.*]] = stablehlo.subtract %[[V16]], %[[V14]] : tensor<5xf64>
// JVP-NEXT:    %[[V18:.*]] = stablehlo.divide %[[V17]], %[[V9]] : tensor<5xf64>
// JVP-NEXT:    %[[V19:.*]] = "stablehlo.scatter"(%arg3, %arg1, %[[V18]]) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = true}> ({
// JVP-NEXT:    ^bb0(%arg5: tensor<f64>, %arg6: tensor<f64>):
// JVP-NEXT:    stablehlo.return %arg6 : tensor<f64>
// JVP-NEXT:    }) : (tensor<4xf64>, tensor<5x1xi32>, tensor<5xf64>) -> tensor<4xf64>
// JVP-NEXT:    return %[[V0]], %[[V19]] : tensor<4xf64>, tensor<4xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[C:.*]] = stablehlo.constant dense<1> : tensor<4xi32>
// VJP-NEXT:    %[[C_0:.*]] = stablehlo.constant dense<0> : tensor<5x1xi32>
// VJP-NEXT:    %[[C_1:.*]] = stablehlo.constant dense<3> : tensor<5x1xi32>
// VJP-NEXT:    %[[C_2:.*]] = stablehlo.constant dense<0> : tensor<5xi32>
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<5xf64>
// VJP-NEXT:    %[[V0:.*]] = "stablehlo.scatter"(%arg0, %arg1, %arg2) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = true}> ({
// VJP-NEXT:    ^bb0(%arg4: tensor<f64>, %arg5: tensor<f64>):
// VJP-NEXT:    %[[V22:.*]] = stablehlo.divide %arg4, %arg5 : tensor<f64>
// VJP-NEXT:    stablehlo.return %[[V22]] : tensor<f64>
// VJP-NEXT:    }) : (tensor<4xf64>, tensor<5x1xi32>, tensor<5xf64>) -> tensor<4xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.clamp %[[C_0]], %arg1, %[[C_1]] : tensor<5x1xi32>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.iota dim = 0 : tensor<4xi32>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.add %[[V2]], %[[C]] : tensor<4xi32>
// VJP-NEXT:    %[[V4:.*]] = "stablehlo.gather"(%[[V3]], %[[V1]]) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1>}> : (tensor<4xi32>, tensor<5x1xi32>) -> tensor<5xi32>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.compare EQ, %[[V1]], %arg1 : (tensor<5x1xi32>, tensor<5x1xi32>) -> tensor<5x1xi1>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.reshape %[[V5]] : (tensor<5x1xi1>) -> tensor<5xi1>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.select %[[V6]], %[[V4]], %[[C_2]] : tensor<5xi1>, tensor<5xi32>
// VJP-NEXT:    %[[V8:.*]] = stablehlo.compare NE, %[[V7]], %[[C_2]] : (tensor<5xi32>, tensor<5xi32>) -> tensor<5xi1>
// VJP-NEXT:    %[[V9:.*]] = stablehlo.select %[[V8]], %arg2, %[[CST]] : tensor<5xi1>, tensor<5xf64>
// VJP-NEXT:    %[[V10:.*]] = "stablehlo.gather"(%arg3, %[[V1]]) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1>}> : (tensor<4xf64>, tensor<5x1xi32>) -> tensor<5xf64>
// VJP-NEXT:    %[[V11:.*]] = stablehlo.select %[[V6]], %[[V10]], %[[CST]] : tensor<5xi1>, tensor<5xf64>
// VJP-NEXT:    %[[V12:.*]] = stablehlo.divide %[[V11]], %[[V9]] : tensor<5xf64>
// VJP-NEXT:    %[[V13:.*]] = stablehlo.select %[[V6]], %[[V12]], %[[CST]] : tensor<5xi1>, tensor<5xf64>
// VJP-NEXT:    %[[V14:.*]] = "stablehlo.scatter"(%arg3, %arg1, %[[CST]]) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = true}> ({
// VJP-NEXT:    ^bb0(%arg4: tensor<f64>, %arg5: tensor<f64>):
// VJP-NEXT:    stablehlo.return %arg5 : tensor<f64>
// VJP-NEXT:    }) : (tensor<4xf64>, tensor<5x1xi32>, tensor<5xf64>) -> tensor<4xf64>
// VJP-NEXT:    %[[V15:.*]] = "stablehlo.scatter"(%[[V14]], %[[V1]], %[[V13]]) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
// VJP-NEXT:    ^bb0(%arg4: tensor<f64>, %arg5: tensor<f64>):
// VJP-NEXT:    %[[V22:.*]] = stablehlo.add %arg4, %arg5 : tensor<f64>
// VJP-NEXT:    stablehlo.return %[[V22]] : tensor<f64>
// VJP-NEXT:    }) : (tensor<4xf64>, tensor<5x1xi32>, tensor<5xf64>) -> tensor<4xf64>
// VJP-NEXT:    %[[V16:.*]] = stablehlo.negate %[[V12]] : tensor<5xf64>
// VJP-NEXT:    %[[V17:.*]] = "stablehlo.gather"(%arg0, %[[V1]]) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1>}> : (tensor<4xf64>, tensor<5x1xi32>) -> tensor<5xf64>
// VJP-NEXT:    %[[V18:.*]] = stablehlo.select %[[V6]], %[[V17]], %[[CST]] : tensor<5xi1>, tensor<5xf64>
// VJP-NEXT:    %[[V19:.*]] = stablehlo.divide %[[V18]], %[[V9]] : tensor<5xf64>
// VJP-NEXT:    %[[V20:.*]] = stablehlo.multiply %[[V19]], %[[V16]] : tensor<5xf64>
// VJP-NEXT:    %[[V21:.*]] = stablehlo.select %[[V8]], %[[V20]], %[[CST]] : tensor<5xi1>, tensor<5xf64>
// VJP-NEXT:    return %[[V0]], %[[V15]], %[[V21]] : tensor<4xf64>, tensor<4xf64>, tensor<5xf64>

func.func @main(%x: tensor<4xf64>, %i: tensor<5x1xi32>, %u: tensor<5xf64>) -> tensor<4xf64> {
  %0 = "stablehlo.scatter"(%x, %i, %u) ({
    ^bb0(%a: tensor<f64>, %b: tensor<f64>):
      %c = stablehlo.divide %a, %b : tensor<f64>
      stablehlo.return %c : tensor<f64>
  }) {
    scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
      index_vector_dim = 1>, unique_indices = true
  } : (tensor<4xf64>, tensor<5x1xi32>, tensor<5xf64>) -> tensor<4xf64>
  return %0 : tensor<4xf64>
}
