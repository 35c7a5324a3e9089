// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// A gather of the tangents at the selected indices. The transpose is a scatter that adds.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[VALUES:.*]], %[[INDICES:.*]] = chlo.top_k(%arg0, k = 2) : tensor<3x4xf64> -> (tensor<3x2xf64>, tensor<3x2xi32>)
// JVP-NEXT:    %[[V0:.*]] = stablehlo.iota dim = 0 : tensor<12xi32>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.reshape %[[V0]] : (tensor<12xi32>) -> tensor<3x4xi32>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.slice %[[V1]] [0:3, 0:1] : (tensor<3x4xi32>) -> tensor<3x1xi32>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.reshape %[[V2]] : (tensor<3x1xi32>) -> tensor<3xi32>
// JVP-NEXT:    %[[V4:.*]] = stablehlo.broadcast_in_dim %[[V3]], dims = [0] : (tensor<3xi32>) -> tensor<3x2xi32>
// JVP-NEXT:    %[[V5:.*]] = stablehlo.add %[[V4]], %[[INDICES]] : tensor<3x2xi32>
// JVP-NEXT:    %[[V6:.*]] = stablehlo.reshape %[[V5]] : (tensor<3x2xi32>) -> tensor<3x2x1xi32>
// JVP-NEXT:    %[[V7:.*]] = stablehlo.reshape %arg1 : (tensor<3x4xf64>) -> tensor<12xf64>
// JVP-NEXT:    %[[V8:.*]] = "stablehlo.gather"(%[[V7]], %[[V6]]) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1>}> : (tensor<12xf64>, tensor<3x2x1xi32>) -> tensor<3x2xf64>
// JVP-NEXT:    return %[[VALUES]], %[[INDICES]], %[[V8]] : tensor<3x2xf64>, tensor<3x2xi32>, tensor<3x2xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<12xf64>
// VJP-NEXT:    %[[C:.*]] = stablehlo.constant dense<0> : tensor<3x2x1xi32>
// VJP-NEXT:    %[[C_0:.*]] = stablehlo.constant dense<11> : tensor<3x2x1xi32>
// VJP-NEXT:    %[[VALUES:.*]], %[[INDICES:.*]] = chlo.top_k(%arg0, k = 2) : tensor<3x4xf64> -> (tensor<3x2xf64>, tensor<3x2xi32>)
// VJP-NEXT:    %[[V0:.*]] = stablehlo.iota dim = 0 : tensor<12xi32>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.reshape %[[V0]] : (tensor<12xi32>) -> tensor<3x4xi32>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.slice %[[V1]] [0:3, 0:1] : (tensor<3x4xi32>) -> tensor<3x1xi32>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.reshape %[[V2]] : (tensor<3x1xi32>) -> tensor<3xi32>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.broadcast_in_dim %[[V3]], dims = [0] : (tensor<3xi32>) -> tensor<3x2xi32>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.add %[[V4]], %[[INDICES]] : tensor<3x2xi32>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.reshape %[[V5]] : (tensor<3x2xi32>) -> tensor<3x2x1xi32>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.clamp %[[C]], %[[V6]], %[[C_0]] : tensor<3x2x1xi32>
// VJP-NEXT:    %[[V8:.*]] = "stablehlo.scatter"(%[[CST]], %[[V7]], %arg1) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 2>, unique_indices = false}> ({
// VJP-NEXT:    ^bb0(%arg2: tensor<f64>, %arg3: tensor<f64>):
// VJP-NEXT:    %[[V10:.*]] = stablehlo.add %arg2, %arg3 : tensor<f64>
// VJP-NEXT:    stablehlo.return %[[V10]] : tensor<f64>
// VJP-NEXT:    }) : (tensor<12xf64>, tensor<3x2x1xi32>, tensor<3x2xf64>) -> tensor<12xf64>
// VJP-NEXT:    %[[V9:.*]] = stablehlo.reshape %[[V8]] : (tensor<12xf64>) -> tensor<3x4xf64>
// VJP-NEXT:    return %[[VALUES]], %[[INDICES]], %[[V9]] : tensor<3x2xf64>, tensor<3x2xi32>, tensor<3x4xf64>

func.func @main(%x: tensor<3x4xf64>) -> (tensor<3x2xf64>, tensor<3x2xi32>) {
  %0:2 = chlo.top_k(%x, k = 2) : tensor<3x4xf64> -> (tensor<3x2xf64>, tensor<3x2xi32>)
  return %0#0, %0#1 : tensor<3x2xf64>, tensor<3x2xi32>
}
