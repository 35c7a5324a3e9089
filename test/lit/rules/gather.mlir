// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// The transpose is a scatter, at indices clamped as gather clamps them.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = "stablehlo.gather"(%arg0, %arg1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = true, slice_sizes = array<i64: 1, 3>}> : (tensor<4x3xf64>, tensor<5x1xi32>) -> tensor<5x3xf64>
// JVP-NEXT:    %[[V1:.*]] = "stablehlo.gather"(%arg2, %arg1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = true, slice_sizes = array<i64: 1, 3>}> : (tensor<4x3xf64>, tensor<5x1xi32>) -> tensor<5x3xf64>
// JVP-NEXT:    return %[[V0]], %[[V1]] : tensor<5x3xf64>, tensor<5x3xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<4x3xf64>
// VJP-NEXT:    %[[C:.*]] = stablehlo.constant dense<0> : tensor<5x1xi32>
// VJP-NEXT:    %[[C_0:.*]] = stablehlo.constant dense<3> : tensor<5x1xi32>
// VJP-NEXT:    %[[V0:.*]] = "stablehlo.gather"(%arg0, %arg1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = true, slice_sizes = array<i64: 1, 3>}> : (tensor<4x3xf64>, tensor<5x1xi32>) -> tensor<5x3xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.clamp %[[C]], %arg1, %[[C_0]] : tensor<5x1xi32>
// VJP-NEXT:    %[[V2:.*]] = "stablehlo.scatter"(%[[CST]], %[[V1]], %arg2) <{indices_are_sorted = true, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
// VJP-NEXT:    ^bb0(%arg3: tensor<f64>, %arg4: tensor<f64>):
// VJP-NEXT:    %[[V3:.*]] = stablehlo.add %arg3, %arg4 : tensor<f64>
// VJP-NEXT:    stablehlo.return %[[V3]] : tensor<f64>
// VJP-NEXT:    }) : (tensor<4x3xf64>, tensor<5x1xi32>, tensor<5x3xf64>) -> tensor<4x3xf64>
// VJP-NEXT:    return %[[V0]], %[[V2]] : tensor<5x3xf64>, tensor<4x3xf64>

func.func @main(%x: tensor<4x3xf64>, %i: tensor<5x1xi32>) -> tensor<5x3xf64> {
  %0 = "stablehlo.gather"(%x, %i) {
    dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
    slice_sizes = array<i64: 1, 3>, indices_are_sorted = true
  } : (tensor<4x3xf64>, tensor<5x1xi32>) -> tensor<5x3xf64>
  return %0 : tensor<5x3xf64>
}
