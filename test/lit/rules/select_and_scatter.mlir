// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// The op is linear in the source. The transpose gathers from the selected elements.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// JVP-NEXT:    %[[V0:.*]] = "stablehlo.select_and_scatter"(%arg0, %arg1, %[[CST]]) <{window_dimensions = array<i64: 3>}> ({
// JVP-NEXT:    ^bb0(%arg4: tensor<f64>, %arg5: tensor<f64>):
// JVP-NEXT:    %[[V2:.*]] = stablehlo.compare GE, %arg4, %arg5 : (tensor<f64>, tensor<f64>) -> tensor<i1>
// JVP-NEXT:    stablehlo.return %[[V2]] : tensor<i1>
// JVP-NEXT:    }, {
// JVP-NEXT:    ^bb0(%arg4: tensor<f64>, %arg5: tensor<f64>):
// JVP-NEXT:    %[[V2]] = stablehlo.add %arg4, %arg5 : tensor<f64>
// JVP-NEXT:    stablehlo.return %[[V2]] : tensor<f64>
// JVP-NEXT:    }) : (tensor<6xf64>, tensor<4xf64>, tensor<f64>) -> tensor<6xf64>
// JVP-NEXT:    %[[V1:.*]] = "stablehlo.select_and_scatter"(%arg0, %arg3, %[[CST]]) <{window_dimensions = array<i64: 3>}> ({
// JVP-NEXT:    ^bb0(%arg4: tensor<f64>, %arg5: tensor<f64>):
// JVP-NEXT:    %[[V2]] = stablehlo.compare GE, %arg4, %arg5 : (tensor<f64>, tensor<f64>) -> tensor<i1>
// JVP-NEXT:    stablehlo.return %[[V2]] : tensor<i1>
// JVP-NEXT:    }, {
// JVP-NEXT:    ^bb0(%arg4: tensor<f64>, %arg5: tensor<f64>):
// JVP-NEXT:    %[[V2]] = stablehlo.add %arg4, %arg5 : tensor<f64>
// JVP-NEXT:    stablehlo.return %[[V2]] : tensor<f64>
// JVP-NEXT:    }) : (tensor<6xf64>, tensor<4xf64>, tensor<f64>) -> tensor<6xf64>
// JVP-NEXT:    return %[[V0]], %[[V1]] : tensor<6xf64>, tensor<6xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<6xf64>
// VJP-NEXT:    %[[C:.*]] = stablehlo.constant dense<6> : tensor<i32>
// VJP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[V0:.*]] = "stablehlo.select_and_scatter"(%arg0, %arg1, %[[CST_0]]) <{window_dimensions = array<i64: 3>}> ({
// VJP-NEXT:    ^bb0(%arg3: tensor<f64>, %arg4: tensor<f64>):
// VJP-NEXT:    %[[V5:.*]] = stablehlo.compare GE, %arg3, %arg4 : (tensor<f64>, tensor<f64>) -> tensor<i1>
// VJP-NEXT:    stablehlo.return %[[V5]] : tensor<i1>
// VJP-NEXT:    }, {
// VJP-NEXT:    ^bb0(%arg3: tensor<f64>, %arg4: tensor<f64>):
// VJP-NEXT:    %[[V5]] = stablehlo.add %arg3, %arg4 : tensor<f64>
// VJP-NEXT:    stablehlo.return %[[V5]] : tensor<f64>
// VJP-NEXT:    }) : (tensor<6xf64>, tensor<4xf64>, tensor<f64>) -> tensor<6xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.iota dim = 0 : tensor<6xi32>
// VJP-NEXT:    %[[V2:.*]]:2 = "stablehlo.reduce_window"(%arg0, %[[V1]], %[[CST_0]], %[[C]]) <{base_dilations = array<i64: 1>, padding = dense<0> : tensor<1x2xi64>, window_dilations = array<i64: 1>, window_dimensions = array<i64: 3>, window_strides = array<i64: 1>}> ({
// VJP-NEXT:    ^bb0(%arg3: tensor<f64>, %arg4: tensor<i32>, %arg5: tensor<f64>, %arg6: tensor<i32>):
// VJP-NEXT:    %[[V5]] = stablehlo.compare LE, %arg4, %arg6 : (tensor<i32>, tensor<i32>) -> tensor<i1>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.select %[[V5]], %arg3, %arg5 : tensor<i1>, tensor<f64>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.select %[[V5]], %arg5, %arg3 : tensor<i1>, tensor<f64>
// VJP-NEXT:    %[[V8:.*]] = stablehlo.minimum %arg4, %arg6 : tensor<i32>
// VJP-NEXT:    %[[V9:.*]] = stablehlo.maximum %arg4, %arg6 : tensor<i32>
// VJP-NEXT:    %[[V10:.*]] = stablehlo.compare GE, %[[V6]], %[[V7]] : (tensor<f64>, tensor<f64>) -> tensor<i1>
// VJP-NEXT:    %[[V11:.*]] = stablehlo.compare EQ, %[[V9]], %[[C]] : (tensor<i32>, tensor<i32>) -> tensor<i1>
// VJP-NEXT:    %[[V12:.*]] = stablehlo.or %[[V10]], %[[V11]] : tensor<i1>
// VJP-NEXT:    %[[V13:.*]] = stablehlo.select %[[V12]], %[[V6]], %[[V7]] : tensor<i1>, tensor<f64>
// VJP-NEXT:    %[[V14:.*]] = stablehlo.select %[[V12]], %[[V8]], %[[V9]] : tensor<i1>, tensor<i32>
// VJP-NEXT:    stablehlo.return %[[V13]], %[[V14]] : tensor<f64>, tensor<i32>
// VJP-NEXT:    }) : (tensor<6xf64>, tensor<6xi32>, tensor<f64>, tensor<i32>) -> (tensor<4xf64>, tensor<4xi32>)
// VJP-NEXT:    %[[V3:.*]] = stablehlo.reshape %[[V2]]#1 : (tensor<4xi32>) -> tensor<4x1xi32>
// VJP-NEXT:    %[[V4:.*]] = "stablehlo.gather"(%arg2, %[[V3]]) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1>}> : (tensor<6xf64>, tensor<4x1xi32>) -> tensor<4xf64>
// VJP-NEXT:    return %[[V0]], %[[CST]], %[[V4]] : tensor<6xf64>, tensor<6xf64>, tensor<4xf64>

func.func @main(%x: tensor<6xf64>, %source: tensor<4xf64>) -> tensor<6xf64> {
  %init = stablehlo.constant dense<0.0> : tensor<f64>
  %0 = "stablehlo.select_and_scatter"(%x, %source, %init) <{window_dimensions = array<i64: 3>}> ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %1 = stablehlo.compare GE, %a, %b : (tensor<f64>, tensor<f64>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }, {
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %1 = stablehlo.add %a, %b : tensor<f64>
    stablehlo.return %1 : tensor<f64>
  }) : (tensor<6xf64>, tensor<4xf64>, tensor<f64>) -> tensor<6xf64>
  return %0 : tensor<6xf64>
}
