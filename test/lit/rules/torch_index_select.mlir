// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// A gather. The transpose is a scatter that adds.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = "stablehlo.torch_index_select"(%arg0, %arg1) <{batch_dims = 1 : i64, dim = 1 : i64}> : (tensor<2x5x3xf64>, tensor<2x4xi32>) -> tensor<2x4x3xf64>
// JVP-NEXT:    %[[V1:.*]] = "stablehlo.gather"(%arg2, %arg1) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1, 3>}> : (tensor<2x5x3xf64>, tensor<2x4xi32>) -> tensor<2x4x3xf64>
// JVP-NEXT:    return %[[V0]], %[[V1]] : tensor<2x4x3xf64>, tensor<2x4x3xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<2x5x3xf64>
// VJP-NEXT:    %[[C:.*]] = stablehlo.constant dense<0> : tensor<2x4xi32>
// VJP-NEXT:    %[[C_0:.*]] = stablehlo.constant dense<4> : tensor<2x4xi32>
// VJP-NEXT:    %[[V0:.*]] = "stablehlo.torch_index_select"(%arg0, %arg1) <{batch_dims = 1 : i64, dim = 1 : i64}> : (tensor<2x5x3xf64>, tensor<2x4xi32>) -> tensor<2x4x3xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.clamp %[[C]], %arg1, %[[C_0]] : tensor<2x4xi32>
// VJP-NEXT:    %[[V2:.*]] = "stablehlo.scatter"(%[[CST]], %[[V1]], %arg2) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], index_vector_dim = 2>, unique_indices = false}> ({
// VJP-NEXT:    ^bb0(%arg3: tensor<f64>, %arg4: tensor<f64>):
// VJP-NEXT:    %[[V3:.*]] = stablehlo.add %arg3, %arg4 : tensor<f64>
// VJP-NEXT:    stablehlo.return %[[V3]] : tensor<f64>
// VJP-NEXT:    }) : (tensor<2x5x3xf64>, tensor<2x4xi32>, tensor<2x4x3xf64>) -> tensor<2x5x3xf64>
// VJP-NEXT:    return %[[V0]], %[[V2]] : tensor<2x4x3xf64>, tensor<2x5x3xf64>

func.func @main(%x: tensor<2x5x3xf64>, %y: tensor<2x4xi32>) -> tensor<2x4x3xf64> {
  %0 = "stablehlo.torch_index_select"(%x, %y) {dim = 1 : i64, batch_dims = 1 : i64}
    : (tensor<2x5x3xf64>, tensor<2x4xi32>) -> tensor<2x4x3xf64>
  return %0 : tensor<2x4x3xf64>
}
