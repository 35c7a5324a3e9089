// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// Adding updates is linear. The transpose is a gather, with zeros for dropped updates.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = "stablehlo.scatter"(%arg0, %arg1, %arg2) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
// JVP-NEXT:    ^bb0(%arg5: tensor<f64>, %arg6: tensor<f64>):
// JVP-NEXT:    %[[V2:.*]] = stablehlo.add %arg5, %arg6 : tensor<f64>
// JVP-NEXT:    stablehlo.return %[[V2]] : tensor<f64>
// JVP-NEXT:    }) : (tensor<4x3xf64>, tensor<5x1xi32>, tensor<5x3xf64>) -> tensor<4x3xf64>
// JVP-NEXT:    %[[V1:.*]] = "stablehlo.scatter"(%arg3, %arg1, %arg4) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
// JVP-NEXT:    ^bb0(%arg5: tensor<f64>, %arg6: tensor<f64>):
// JVP-NEXT:    %[[V2:.*]] = stablehlo.add %arg5, %arg6 : tensor<f64>
// JVP-NEXT:    stablehlo.return %[[V2]] : tensor<f64>
// JVP-NEXT:    }) : (tensor<4x3xf64>, tensor<5x1xi32>, tensor<5x3xf64>) -> tensor<4x3xf64>
// JVP-NEXT:    return %[[V0]], %[[V1]] : tensor<4x3xf64>, tensor<4x3xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[C:.*]] = stablehlo.constant dense<0> : tensor<5x1xi32>
// VJP-NEXT:    %[[C_0:.*]] = stablehlo.constant dense<3> : tensor<5x1xi32>
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<5x3xf64>
// VJP-NEXT:    %[[V0:.*]] = "stablehlo.scatter"(%arg0, %arg1, %arg2) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
// VJP-NEXT:    ^bb0(%arg4: tensor<f64>, %arg5: tensor<f64>):
// VJP-NEXT:    %[[V7:.*]] = stablehlo.add %arg4, %arg5 : tensor<f64>
// VJP-NEXT:    stablehlo.return %[[V7]] : tensor<f64>
// VJP-NEXT:    }) : (tensor<4x3xf64>, tensor<5x1xi32>, tensor<5x3xf64>) -> tensor<4x3xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.clamp %[[C]], %arg1, %[[C_0]] : tensor<5x1xi32>
// VJP-NEXT:    %[[V2:.*]] = "stablehlo.gather"(%arg3, %[[V1]]) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 3>}> : (tensor<4x3xf64>, tensor<5x1xi32>) -> tensor<5x3xf64>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.compare EQ, %[[V1]], %arg1 : (tensor<5x1xi32>, tensor<5x1xi32>) -> tensor<5x1xi1>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.reshape %[[V3]] : (tensor<5x1xi1>) -> tensor<5xi1>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.broadcast_in_dim %[[V4]], dims = [0] : (tensor<5xi1>) -> tensor<5x3xi1>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.select %[[V5]], %[[V2]], %[[CST]] : tensor<5x3xi1>, tensor<5x3xf64>
// VJP-NEXT:    return %[[V0]], %arg3, %[[V6]] : tensor<4x3xf64>, tensor<4x3xf64>, tensor<5x3xf64>

func.func @main(%x: tensor<4x3xf64>, %i: tensor<5x1xi32>, %u: tensor<5x3xf64>) -> tensor<4x3xf64> {
  %0 = "stablehlo.scatter"(%x, %i, %u) ({
    ^bb0(%a: tensor<f64>, %b: tensor<f64>):
      %1 = stablehlo.add %a, %b : tensor<f64>
      stablehlo.return %1 : tensor<f64>
  }) {
    scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1>
  } : (tensor<4x3xf64>, tensor<5x1xi32>, tensor<5x3xf64>) -> tensor<4x3xf64>
  return %0 : tensor<4x3xf64>
}
