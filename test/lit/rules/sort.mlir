// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// The sort also permutes indices, which are in range. The tangent is gathered at them. An integer operand has no tangent.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V1:.*]] = stablehlo.iota dim = 0 : tensor<4xi32>
// JVP-NEXT:    %[[V0:.*]]:3 = "stablehlo.sort"(%arg0, %arg1, %[[V1]]) <{dimension = 0 : i64, is_stable = true}> ({
// JVP-NEXT:    ^bb0(%arg3: tensor<f64>, %arg4: tensor<f64>, %arg5: tensor<i32>, %arg6: tensor<i32>, %arg7: tensor<i32>, %arg8: tensor<i32>):
// JVP-NEXT:    %[[V5:.*]] = stablehlo.compare LT, %arg3, %arg4, TOTALORDER : (tensor<f64>, tensor<f64>) -> tensor<i1>
// JVP-NEXT:    stablehlo.return %[[V5]] : tensor<i1>
// JVP-NEXT:    }) : (tensor<4xf64>, tensor<4xi32>, tensor<4xi32>) -> (tensor<4xf64>, tensor<4xi32>, tensor<4xi32>)
// JVP-NEXT:    %[[V3:.*]] = stablehlo.reshape %[[V0]]#2 : (tensor<4xi32>) -> tensor<4x1xi32>
// JVP-NEXT:    %[[V4:.*]] = "stablehlo.gather"(%arg2, %[[V3]]) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1>}> : (tensor<4xf64>, tensor<4x1xi32>) -> tensor<4xf64>
// JVP-NEXT:    return %[[V0]]#0, %[[V0]]#1, %[[V4]] : tensor<4xf64>, tensor<4xi32>, tensor<4xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<4xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.iota dim = 0 : tensor<4xi32>
// VJP-NEXT:    %[[V0:.*]]:3 = "stablehlo.sort"(%arg0, %arg1, %[[V1]]) <{dimension = 0 : i64, is_stable = true}> ({
// VJP-NEXT:    ^bb0(%arg3: tensor<f64>, %arg4: tensor<f64>, %arg5: tensor<i32>, %arg6: tensor<i32>, %arg7: tensor<i32>, %arg8: tensor<i32>):
// VJP-NEXT:    %[[V6:.*]] = stablehlo.compare LT, %arg3, %arg4, TOTALORDER : (tensor<f64>, tensor<f64>) -> tensor<i1>
// VJP-NEXT:    stablehlo.return %[[V6]] : tensor<i1>
// VJP-NEXT:    }) : (tensor<4xf64>, tensor<4xi32>, tensor<4xi32>) -> (tensor<4xf64>, tensor<4xi32>, tensor<4xi32>)
// VJP-NEXT:    %[[V3:.*]] = stablehlo.reshape %[[V0]]#2 : (tensor<4xi32>) -> tensor<4x1xi32>
// VJP-NEXT:    %[[V5:.*]] = "stablehlo.scatter"(%[[CST]], %[[V3]], %arg2) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
// VJP-NEXT:    ^bb0(%arg3: tensor<f64>, %arg4: tensor<f64>):
// VJP-NEXT:    %[[V6]] = stablehlo.add %arg3, %arg4 : tensor<f64>
// VJP-NEXT:    stablehlo.return %[[V6]] : tensor<f64>
// VJP-NEXT:    }) : (tensor<4xf64>, tensor<4x1xi32>, tensor<4xf64>) -> tensor<4xf64>
// VJP-NEXT:    return %[[V0]]#0, %[[V0]]#1, %[[V5]] : tensor<4xf64>, tensor<4xi32>, tensor<4xf64>

func.func @main(%x: tensor<4xf64>, %n: tensor<4xi32>) -> (tensor<4xf64>, tensor<4xi32>) {
  %0:2 = "stablehlo.sort"(%x, %n) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>, %m: tensor<i32>, %o: tensor<i32>):
    %1 = stablehlo.compare LT, %a, %b, TOTALORDER : (tensor<f64>, tensor<f64>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }) : (tensor<4xf64>, tensor<4xi32>) -> (tensor<4xf64>, tensor<4xi32>)
  return %0#0, %0#1 : tensor<4xf64>, tensor<4xi32>
}
