// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// For windows without overlap, a mask marks the first element of each window that attains the maximum.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[C:.*]] = stablehlo.constant dense<7> : tensor<2x3xi32>
// JVP-NEXT:    %[[C_0:.*]] = stablehlo.constant dense<7> : tensor<i32>
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<2x3xf64>
// JVP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// JVP-NEXT:    %[[CST_2:.*]] = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>
// JVP-NEXT:    %[[V0:.*]] = "stablehlo.reduce_window"(%arg0, %[[CST_2]]) <{window_dimensions = array<i64: 3>, window_strides = array<i64: 3>}> ({
// JVP-NEXT:    ^bb0(%arg2: tensor<f64>, %arg3: tensor<f64>):
// JVP-NEXT:    %[[V16:.*]] = stablehlo.maximum %arg2, %arg3 : tensor<f64>
// JVP-NEXT:    stablehlo.return %[[V16]] : tensor<f64>
// JVP-NEXT:    }) : (tensor<7xf64>, tensor<f64>) -> tensor<2xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.slice %arg1 [0:6] : (tensor<7xf64>) -> tensor<6xf64>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.reshape %[[V1]] : (tensor<6xf64>) -> tensor<2x3xf64>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.iota dim = 0 : tensor<7xi32>
// JVP-NEXT:    %[[V4:.*]] = stablehlo.slice %[[V3]] [0:6] : (tensor<7xi32>) -> tensor<6xi32>
// JVP-NEXT:    %[[V5:.*]] = stablehlo.reshape %[[V4]] : (tensor<6xi32>) -> tensor<2x3xi32>
// JVP-NEXT:    %[[V6:.*]] = stablehlo.broadcast_in_dim %[[V0]], dims = [0] : (tensor<2xf64>) -> tensor<2x3xf64>
// JVP-NEXT:    %[[V7:.*]] = stablehlo.slice %arg0 [0:6] : (tensor<7xf64>) -> tensor<6xf64>
// JVP-NEXT:    %[[V8:.*]] = stablehlo.reshape %[[V7]] : (tensor<6xf64>) -> tensor<2x3xf64>
// JVP-NEXT:    %[[V9:.*]] = stablehlo.compare EQ, %[[V8]], %[[V6]] : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xi1>
// JVP-NEXT:    %[[V10:.*]] = stablehlo.select %[[V9]], %[[V5]], %[[C]] : tensor<2x3xi1>, tensor<2x3xi32>
// JVP-NEXT:    %[[V11:.*]] = stablehlo.reduce(%[[V10]] init: %[[C_0]]) applies stablehlo.minimum across dimensions = [1] : (tensor<2x3xi32>, tensor<i32>) -> tensor<2xi32>
// JVP-NEXT:    %[[V12:.*]] = stablehlo.broadcast_in_dim %[[V11]], dims = [0] : (tensor<2xi32>) -> tensor<2x3xi32>
// JVP-NEXT:    %[[V13:.*]] = stablehlo.compare EQ, %[[V5]], %[[V12]] : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi1>
// JVP-NEXT:    %[[V14:.*]] = stablehlo.select %[[V13]], %[[V2]], %[[CST]] : tensor<2x3xi1>, tensor<2x3xf64>
// JVP-NEXT:    %[[V15:.*]] = stablehlo.reduce(%[[V14]] init: %[[CST_1]]) applies stablehlo.add across dimensions = [1] : (tensor<2x3xf64>, tensor<f64>) -> tensor<2xf64>
// JVP-NEXT:    return %[[V0]], %[[V15]] : tensor<2xf64>, tensor<2xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[C:.*]] = stablehlo.constant dense<7> : tensor<2x3xi32>
// VJP-NEXT:    %[[C_0:.*]] = stablehlo.constant dense<7> : tensor<i32>
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<2x3xf64>
// VJP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[CST_2:.*]] = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>
// VJP-NEXT:    %[[V0:.*]] = "stablehlo.reduce_window"(%arg0, %[[CST_2]]) <{window_dimensions = array<i64: 3>, window_strides = array<i64: 3>}> ({
// VJP-NEXT:    ^bb0(%arg2: tensor<f64>, %arg3: tensor<f64>):
// VJP-NEXT:    %[[V16:.*]] = stablehlo.maximum %arg2, %arg3 : tensor<f64>
// VJP-NEXT:    stablehlo.return %[[V16]] : tensor<f64>
// VJP-NEXT:    }) : (tensor<7xf64>, tensor<f64>) -> tensor<2xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.broadcast_in_dim %arg1, dims = [0] : (tensor<2xf64>) -> tensor<2x3xf64>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.iota dim = 0 : tensor<7xi32>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.slice %[[V2]] [0:6] : (tensor<7xi32>) -> tensor<6xi32>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.reshape %[[V3]] : (tensor<6xi32>) -> tensor<2x3xi32>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.broadcast_in_dim %[[V0]], dims = [0] : (tensor<2xf64>) -> tensor<2x3xf64>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.slice %arg0 [0:6] : (tensor<7xf64>) -> tensor<6xf64>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.reshape %[[V6]] : (tensor<6xf64>) -> tensor<2x3xf64>
// VJP-NEXT:    %[[V8:.*]] = stablehlo.compare EQ, %[[V7]], %[[V5]] : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xi1>
// VJP-NEXT:    %[[V9:.*]] = stablehlo.select %[[V8]], %[[V4]], %[[C]] : tensor<2x3xi1>, tensor<2x3xi32>
// VJP-NEXT:    %[[V10:.*]] = stablehlo.reduce(%[[V9]] init: %[[C_0]]) applies stablehlo.minimum across dimensions = [1] : (tensor<2x3xi32>, tensor<i32>) -> tensor<2xi32>
// VJP-NEXT:    %[[V11:.*]] = stablehlo.broadcast_in_dim %[[V10]], dims = [0] : (tensor<2xi32>) -> tensor<2x3xi32>
// VJP-NEXT:    %[[V12:.*]] = stablehlo.compare EQ, %[[V4]], %[[V11]] : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi1>
// VJP-NEXT:    %[[V13:.*]] = stablehlo.select %[[V12]], %[[V1]], %[[CST]] : tensor<2x3xi1>, tensor<2x3xf64>
// VJP-NEXT:    %[[V14:.*]] = stablehlo.reshape %[[V13]] : (tensor<2x3xf64>) -> tensor<6xf64>
// VJP-NEXT:    %[[V15:.*]] = stablehlo.pad %[[V14]], %[[CST_1]], low = [0], high = [1], interior = [0] : (tensor<6xf64>, tensor<f64>) -> tensor<7xf64>
// VJP-NEXT:    return %[[V0]], %[[V15]] : tensor<2xf64>, tensor<7xf64>

func.func @main(%x: tensor<7xf64>) -> tensor<2xf64> {
  %init = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>
  %0 = "stablehlo.reduce_window"(%x, %init) <{window_dimensions = array<i64: 3>, window_strides = array<i64: 3>}> ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %1 = stablehlo.maximum %a, %b : tensor<f64>
    stablehlo.return %1 : tensor<f64>
  }) : (tensor<7xf64>, tensor<f64>) -> tensor<2xf64>
  return %0 : tensor<2xf64>
}
