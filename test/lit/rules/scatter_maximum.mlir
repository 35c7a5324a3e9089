// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// The mean of the tangents of elements that attain the result. An integer counts these elements.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<4xf64>
// JVP-NEXT:    %[[C:.*]] = stablehlo.constant dense<0> : tensor<5x1xi32>
// JVP-NEXT:    %[[C_0:.*]] = stablehlo.constant dense<3> : tensor<5x1xi32>
// JVP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<5xf64>
// JVP-NEXT:    %[[V0:.*]] = "stablehlo.scatter"(%arg0, %arg1, %arg2) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
// JVP-NEXT:    ^bb0(%arg5: tensor<f64>, %arg6: tensor<f64>):
// JVP-NEXT:    %[[V16:.*]] = stablehlo.maximum %arg5, %arg6 : tensor<f64>
// JVP-NEXT:    stablehlo.return %[[V16]] : tensor<f64>
// JVP-NEXT:    }) : (tensor<4xf64>, tensor<5x1xi32>, tensor<5xf64>) -> tensor<4xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.clamp %[[C]], %arg1, %[[C_0]] : tensor<5x1xi32>
// JVP-NEXT:    %[[V2:.*]] = "stablehlo.gather"(%[[V0]], %[[V1]]) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1>}> : (tensor<4xf64>, tensor<5x1xi32>) -> tensor<5xf64>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.compare EQ, %[[V1]], %arg1 : (tensor<5x1xi32>, tensor<5x1xi32>) -> tensor<5x1xi1>
// JVP-NEXT:    %[[V4:.*]] = stablehlo.reshape %[[V3]] : (tensor<5x1xi1>) -> tensor<5xi1>
// JVP-NEXT:    %[[V5:.*]] = stablehlo.select %[[V4]], %[[V2]], %[[CST_1]] : tensor<5xi1>, tensor<5xf64>
// JVP-NEXT:    %[[V6:.*]] = stablehlo.compare EQ, %arg2, %[[V5]] : (tensor<5xf64>, tensor<5xf64>) -> tensor<5xi1>
// JVP-NEXT:    %[[V7:.*]] = stablehlo.convert %[[V6]] : (tensor<5xi1>) -> tensor<5xi32>
// JVP-NEXT:    %[[V8:.*]] = stablehlo.compare EQ, %arg0, %[[V0]] : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xi1>
// JVP-NEXT:    %[[V9:.*]] = stablehlo.convert %[[V8]] : (tensor<4xi1>) -> tensor<4xi32>
// JVP-NEXT:    %[[V10:.*]] = "stablehlo.scatter"(%[[V9]], %arg1, %[[V7]]) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
// JVP-NEXT:    ^bb0(%arg5: tensor<i32>, %arg6: tensor<i32>):
// JVP-NEXT:    %[[V16:.*]] = stablehlo.add %arg5, %arg6 : tensor<i32>
// JVP-NEXT:    stablehlo.return %[[V16]] : tensor<i32>
// JVP-NEXT:    }) : (tensor<4xi32>, tensor<5x1xi32>, tensor<5xi32>) -> tensor<4xi32>
// JVP-NEXT:    %[[V11:.*]] = stablehlo.convert %[[V10]] : (tensor<4xi32>) -> tensor<4xf64>
// JVP-NEXT:    %[[V12:.*]] = stablehlo.select %[[V6]], %arg4, %[[CST_1]] : tensor<5xi1>, tensor<5xf64>
// JVP-NEXT:    %[[V13:.*]] = stablehlo.select %[[V8]], %arg3, %[[CST]] : tensor<4xi1>, tensor<4xf64>
// JVP-NEXT:    %[[V14:.*]] = "stablehlo.scatter"(%[[V13]], %arg1, %[[V12]]) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
// JVP-NEXT:    ^bb0(%arg5: tensor<f64>, %arg6: tensor<f64>):
// JVP-NEXT:    %[[V16:.*]] = stablehlo.add %arg5, %arg6 : tensor<f64>
// JVP-NEXT:    stablehlo.return %[[V16]] : tensor<f64>
// JVP-NEXT:    }) : (tensor<4xf64>, tensor<5x1xi32>, tensor<5xf64>) -> tensor<4xf64>
// JVP-NEXT:    %[[V15:.*]] = stablehlo.divide %[[V14]], %[[V11]] : tensor<4xf64>
// JVP-NEXT:    return %[[V0]], %[[V15]] : tensor<4xf64>, tensor<4xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[C:.*]] = stablehlo.constant dense<0> : tensor<5x1xi32>
// VJP-NEXT:    %[[C_0:.*]] = stablehlo.constant dense<3> : tensor<5x1xi32>
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<5xf64>
// VJP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<4xf64>
// VJP-NEXT:    %[[V0:.*]] = "stablehlo.scatter"(%arg0, %arg1, %arg2) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
// VJP-NEXT:    ^bb0(%arg4: tensor<f64>, %arg5: tensor<f64>):
// VJP-NEXT:    %[[V17:.*]] = stablehlo.maximum %arg4, %arg5 : tensor<f64>
// VJP-NEXT:    stablehlo.return %[[V17]] : tensor<f64>
// VJP-NEXT:    }) : (tensor<4xf64>, tensor<5x1xi32>, tensor<5xf64>) -> tensor<4xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.clamp %[[C]], %arg1, %[[C_0]] : tensor<5x1xi32>
// VJP-NEXT:    %[[V2:.*]] = "stablehlo.gather"(%[[V0]], %[[V1]]) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1>}> : (tensor<4xf64>, tensor<5x1xi32>) -> tensor<5xf64>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.compare EQ, %[[V1]], %arg1 : (tensor<5x1xi32>, tensor<5x1xi32>) -> tensor<5x1xi1>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.reshape %[[V3]] : (tensor<5x1xi1>) -> tensor<5xi1>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.select %[[V4]], %[[V2]], %[[CST]] : tensor<5xi1>, tensor<5xf64>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.compare EQ, %arg2, %[[V5]] : (tensor<5xf64>, tensor<5xf64>) -> tensor<5xi1>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.convert %[[V6]] : (tensor<5xi1>) -> tensor<5xi32>
// VJP-NEXT:    %[[V8:.*]] = stablehlo.compare EQ, %arg0, %[[V0]] : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xi1>
// VJP-NEXT:    %[[V9:.*]] = stablehlo.convert %[[V8]] : (tensor<4xi1>) -> tensor<4xi32>
// VJP-NEXT:    %[[V10:.*]] = "stablehlo.scatter"(%[[V9]], %arg1, %[[V7]]) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
// VJP-NEXT:    ^bb0(%arg4: tensor<i32>, %arg5: tensor<i32>):
// VJP-NEXT:    %[[V17:.*]] = stablehlo.add %arg4, %arg5 : tensor<i32>
// VJP-NEXT:    stablehlo.return %[[V17]] : tensor<i32>
// VJP-NEXT:    }) : (tensor<4xi32>, tensor<5x1xi32>, tensor<5xi32>) -> tensor<4xi32>
// VJP-NEXT:    %[[V11:.*]] = stablehlo.convert %[[V10]] : (tensor<4xi32>) -> tensor<4xf64>
// VJP-NEXT:    %[[V12:.*]] = stablehlo.divide %arg3, %[[V11]] : tensor<4xf64>
// VJP-NEXT:    %[[V13:.*]] = stablehlo.select %[[V8]], %[[V12]], %[[CST_1]] : tensor<4xi1>, tensor<4xf64>
// VJP-NEXT:    %[[V14:.*]] = "stablehlo.gather"(%[[V12]], %[[V1]]) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1>}> : (tensor<4xf64>, tensor<5x1xi32>) -> tensor<5xf64>
// VJP-NEXT:    %[[V15:.*]] = stablehlo.select %[[V4]], %[[V14]], %[[CST]] : tensor<5xi1>, tensor<5xf64>
// VJP-NEXT:    %[[V16:.*]] = stablehlo.select %[[V6]], %[[V15]], %[[CST]] : tensor<5xi1>, tensor<5xf64>
// VJP-NEXT:    return %[[V0]], %[[V13]], %[[V16]] : tensor<4xf64>, tensor<4xf64>, tensor<5xf64>

func.func @main(%x: tensor<4xf64>, %i: tensor<5x1xi32>, %u: tensor<5xf64>) -> tensor<4xf64> {
  %0 = "stablehlo.scatter"(%x, %i, %u) ({
    ^bb0(%a: tensor<f64>, %b: tensor<f64>):
      %c = stablehlo.maximum %a, %b : tensor<f64>
      stablehlo.return %c : tensor<f64>
  }) {
    scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
      index_vector_dim = 1>, unique_indices = false
  } : (tensor<4xf64>, tensor<5x1xi32>, tensor<5xf64>) -> tensor<4xf64>
  return %0 : tensor<4xf64>
}
