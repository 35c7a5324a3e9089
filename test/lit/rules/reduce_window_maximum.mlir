// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// The tangent of the element that attains the maximum, found by a window over elements and their indices.
// The transpose is a scatter.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[C:.*]] = stablehlo.constant dense<7> : tensor<i32>
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>
// JVP-NEXT:    %[[V0:.*]] = "stablehlo.reduce_window"(%arg0, %[[CST]]) <{padding = dense<{{\[\[}}1, 0{{\]\]}}> : tensor<1x2xi64>, window_dimensions = array<i64: 3>, window_strides = array<i64: 2>}> ({
// JVP-NEXT:    ^bb0(%arg2: tensor<f64>, %arg3: tensor<f64>):
// JVP-NEXT:    %[[V5:.*]] = stablehlo.maximum %arg2, %arg3 : tensor<f64>
// JVP-NEXT:    stablehlo.return %[[V5]] : tensor<f64>
// JVP-NEXT:    }) : (tensor<7xf64>, tensor<f64>) -> tensor<3xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.iota dim = 0 : tensor<7xi32>
// JVP-NEXT:    %[[V2:.*]]:2 = "stablehlo.reduce_window"(%arg0, %[[V1]], %[[CST]], %[[C]]) <{base_dilations = array<i64: 1>, padding = dense<{{\[\[}}1, 0{{\]\]}}> : tensor<1x2xi64>, window_dilations = array<i64: 1>, window_dimensions = array<i64: 3>, window_strides = array<i64: 2>}> ({
// JVP-NEXT:    ^bb0(%arg2: tensor<f64>, %arg3: tensor<i32>, %arg4: tensor<f64>, %arg5: tensor<i32>):
// JVP-NEXT:    %[[V5]] = stablehlo.compare LE, %arg3, %arg5 : (tensor<i32>, tensor<i32>) -> tensor<i1>
// JVP-NEXT:    %[[V6:.*]] = stablehlo.select %[[V5]], %arg2, %arg4 : tensor<i1>, tensor<f64>
// JVP-NEXT:    %[[V7:.*]] = stablehlo.select %[[V5]], %arg4, %arg2 : tensor<i1>, tensor<f64>
// JVP-NEXT:    %[[V8:.*]] = stablehlo.minimum %arg3, %arg5 : tensor<i32>
// JVP-NEXT:    %[[V9:.*]] = stablehlo.maximum %arg3, %arg5 : tensor<i32>
// JVP-NEXT:    %[[V10:.*]] = stablehlo.compare GE, %[[V6]], %[[V7]] : (tensor<f64>, tensor<f64>) -> tensor<i1>
// JVP-NEXT:    %[[V11:.*]] = stablehlo.compare EQ, %[[V9]], %[[C]] : (tensor<i32>, tensor<i32>) -> tensor<i1>
// JVP-NEXT:    %[[V12:.*]] = stablehlo.or %[[V10]], %[[V11]] : tensor<i1>
// JVP-NEXT:    %[[V13:.*]] = stablehlo.select %[[V12]], %[[V6]], %[[V7]] : tensor<i1>, tensor<f64>
// JVP-NEXT:    %[[V14:.*]] = stablehlo.select %[[V12]], %[[V8]], %[[V9]] : tensor<i1>, tensor<i32>
// JVP-NEXT:    stablehlo.return %[[V13]], %[[V14]] : tensor<f64>, tensor<i32>
// JVP-NEXT:    }) : (tensor<7xf64>, tensor<7xi32>, tensor<f64>, tensor<i32>) -> (tensor<3xf64>, tensor<3xi32>)
// JVP-NEXT:    %[[V3:.*]] = stablehlo.reshape %[[V2]]#1 : (tensor<3xi32>) -> tensor<3x1xi32>
// JVP-NEXT:    %[[V4:.*]] = "stablehlo.gather"(%arg1, %[[V3]]) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1>}> : (tensor<7xf64>, tensor<3x1xi32>) -> tensor<3xf64>
// JVP-NEXT:    return %[[V0]], %[[V4]] : tensor<3xf64>, tensor<3xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<7xf64>
// VJP-NEXT:    %[[C:.*]] = stablehlo.constant dense<0> : tensor<3x1xi32>
// VJP-NEXT:    %[[C_0:.*]] = stablehlo.constant dense<7> : tensor<i32>
// VJP-NEXT:    %[[C_1:.*]] = stablehlo.constant dense<6> : tensor<3x1xi32>
// VJP-NEXT:    %[[CST_2:.*]] = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>
// VJP-NEXT:    %[[V0:.*]] = "stablehlo.reduce_window"(%arg0, %[[CST_2]]) <{padding = dense<{{\[\[}}1, 0{{\]\]}}> : tensor<1x2xi64>, window_dimensions = array<i64: 3>, window_strides = array<i64: 2>}> ({
// VJP-NEXT:    ^bb0(%arg2: tensor<f64>, %arg3: tensor<f64>):
// VJP-NEXT:    %[[V6:.*]] = stablehlo.maximum %arg2, %arg3 : tensor<f64>
// VJP-NEXT:    stablehlo.return %[[V6]] : tensor<f64>
// VJP-NEXT:    }) : (tensor<7xf64>, tensor<f64>) -> tensor<3xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.iota dim = 0 : tensor<7xi32>
// VJP-NEXT:    %[[V2:.*]]:2 = "stablehlo.reduce_window"(%arg0, %[[V1]], %[[CST_2]], %[[C_0]]) <{base_dilations = array<i64: 1>, padding = dense<{{\[\[}}1, 0{{\]\]}}> : tensor<1x2xi64>, window_dilations = array<i64: 1>, window_dimensions = array<i64: 3>, window_strides = array<i64: 2>}> ({
// VJP-NEXT:    ^bb0(%arg2: tensor<f64>, %arg3: tensor<i32>, %arg4: tensor<f64>, %arg5: tensor<i32>):
// VJP-NEXT:    %[[V6]] = stablehlo.compare LE, %arg3, %arg5 : (tensor<i32>, tensor<i32>) -> tensor<i1>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.select %[[V6]], %arg2, %arg4 : tensor<i1>, tensor<f64>
// VJP-NEXT:    %[[V8:.*]] = stablehlo.select %[[V6]], %arg4, %arg2 : tensor<i1>, tensor<f64>
// VJP-NEXT:    %[[V9:.*]] = stablehlo.minimum %arg3, %arg5 : tensor<i32>
// VJP-NEXT:    %[[V10:.*]] = stablehlo.maximum %arg3, %arg5 : tensor<i32>
// VJP-NEXT:    %[[V11:.*]] = stablehlo.compare GE, %[[V7]], %[[V8]] : (tensor<f64>, tensor<f64>) -> tensor<i1>
// VJP-NEXT:    %[[V12:.*]] = stablehlo.compare EQ, %[[V10]], %[[C_0]] : (tensor<i32>, tensor<i32>) -> tensor<i1>
// VJP-NEXT:    %[[V13:.*]] = stablehlo.or %[[V11]], %[[V12]] : tensor<i1>
// VJP-NEXT:    %[[V14:.*]] = stablehlo.select %[[V13]], %[[V7]], %[[V8]] : tensor<i1>, tensor<f64>
// VJP-NEXT:    %[[V15:.*]] = stablehlo.select %[[V13]], %[[V9]], %[[V10]] : tensor<i1>, tensor<i32>
// VJP-NEXT:    stablehlo.return %[[V14]], %[[V15]] : tensor<f64>, tensor<i32>
// VJP-NEXT:    }) : (tensor<7xf64>, tensor<7xi32>, tensor<f64>, tensor<i32>) -> (tensor<3xf64>, tensor<3xi32>)
// VJP-NEXT:    %[[V3:.*]] = stablehlo.reshape %[[V2]]#1 : (tensor<3xi32>) -> tensor<3x1xi32>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.clamp %[[C]], %[[V3]], %[[C_1]] : tensor<3x1xi32>
// VJP-NEXT:    %[[V5:.*]] = "stablehlo.scatter"(%[[CST]], %[[V4]], %arg1) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
// VJP-NEXT:    ^bb0(%arg2: tensor<f64>, %arg3: tensor<f64>):
// VJP-NEXT:    %[[V6]] = stablehlo.add %arg2, %arg3 : tensor<f64>
// VJP-NEXT:    stablehlo.return %[[V6]] : tensor<f64>
// VJP-NEXT:    }) : (tensor<7xf64>, tensor<3x1xi32>, tensor<3xf64>) -> tensor<7xf64>
// VJP-NEXT:    return %[[V0]], %[[V5]] : tensor<3xf64>, tensor<7xf64>

func.func @main(%x: tensor<7xf64>) -> tensor<3xf64> {
  %init = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>
  %0 = "stablehlo.reduce_window"(%x, %init) <{window_dimensions = array<i64: 3>, window_strides = array<i64: 2>, padding = dense<[[1, 0]]> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %1 = stablehlo.maximum %a, %b : tensor<f64>
    stablehlo.return %1 : tensor<f64>
  }) : (tensor<7xf64>, tensor<f64>) -> tensor<3xf64>
  return %0 : tensor<3xf64>
}
