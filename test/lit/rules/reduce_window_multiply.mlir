// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// The product rule over windows of doubled length: P3[o] = P1[o] P2[o + 1].

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<f64>
// JVP-NEXT:    %[[V0:.*]] = "stablehlo.reduce_window"(%arg0, %[[CST]]) <{window_dimensions = array<i64: 3>, window_strides = array<i64: 1>}> ({
// JVP-NEXT:    ^bb0(%arg2: tensor<f64>, %arg3: tensor<f64>):
// JVP-NEXT:    %[[V16:.*]] = stablehlo.multiply %arg2, %arg3 : tensor<f64>
// JVP-NEXT:    stablehlo.return %[[V16]] : tensor<f64>
// JVP-NEXT:    }) : (tensor<7xf64>, tensor<f64>) -> tensor<5xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.slice %arg1 [1:7] : (tensor<7xf64>) -> tensor<6xf64>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.slice %arg0 [0:6] : (tensor<7xf64>) -> tensor<6xf64>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.multiply %[[V2]], %[[V1]] : tensor<6xf64>
// JVP-NEXT:    %[[V4:.*]] = stablehlo.slice %arg0 [1:7] : (tensor<7xf64>) -> tensor<6xf64>
// JVP-NEXT:    %[[V5:.*]] = stablehlo.slice %arg1 [0:6] : (tensor<7xf64>) -> tensor<6xf64>
// JVP-NEXT:    %[[V6:.*]] = stablehlo.multiply %[[V5]], %[[V4]] : tensor<6xf64>
// JVP-NEXT:    %[[V7:.*]] = stablehlo.add %[[V6]], %[[V3]] : tensor<6xf64>
// JVP-NEXT:    %[[V8:.*]] = stablehlo.slice %[[V7]] [1:6] : (tensor<6xf64>) -> tensor<5xf64>
// JVP-NEXT:    %[[V9:.*]] = stablehlo.slice %arg0 [0:5] : (tensor<7xf64>) -> tensor<5xf64>
// JVP-NEXT:    %[[V10:.*]] = stablehlo.multiply %[[V9]], %[[V8]] : tensor<5xf64>
// JVP-NEXT:    %[[V11:.*]] = stablehlo.multiply %[[V2]], %[[V4]] : tensor<6xf64>
// JVP-NEXT:    %[[V12:.*]] = stablehlo.slice %[[V11]] [1:6] : (tensor<6xf64>) -> tensor<5xf64>
// JVP-NEXT:    %[[V13:.*]] = stablehlo.slice %arg1 [0:5] : (tensor<7xf64>) -> tensor<5xf64>
// JVP-NEXT:    %[[V14:.*]] = stablehlo.multiply %[[V13]], %[[V12]] : tensor<5xf64>
// JVP-NEXT:    %[[V15:.*]] = stablehlo.add %[[V14]], %[[V10]] : tensor<5xf64>
// JVP-NEXT:    return %[[V0]], %[[V15]] : tensor<5xf64>, tensor<5xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[V0:.*]] = "stablehlo.reduce_window"(%arg0, %[[CST_0]]) <{window_dimensions = array<i64: 3>, window_strides = array<i64: 1>}> ({
// VJP-NEXT:    ^bb0(%arg2: tensor<f64>, %arg3: tensor<f64>):
// VJP-NEXT:    %[[V16:.*]] = stablehlo.multiply %arg2, %arg3 : tensor<f64>
// VJP-NEXT:    stablehlo.return %[[V16]] : tensor<f64>
// VJP-NEXT:    }) : (tensor<7xf64>, tensor<f64>) -> tensor<5xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.slice %arg0 [1:7] : (tensor<7xf64>) -> tensor<6xf64>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.slice %arg0 [0:6] : (tensor<7xf64>) -> tensor<6xf64>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.multiply %[[V2]], %[[V1]] : tensor<6xf64>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.slice %[[V3]] [1:6] : (tensor<6xf64>) -> tensor<5xf64>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.multiply %[[V4]], %arg1 : tensor<5xf64>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.pad %[[V5]], %[[CST]], low = [0], high = [2], interior = [0] : (tensor<5xf64>, tensor<f64>) -> tensor<7xf64>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.slice %arg0 [0:5] : (tensor<7xf64>) -> tensor<5xf64>
// VJP-NEXT:    %[[V8:.*]] = stablehlo.multiply %[[V7]], %arg1 : tensor<5xf64>
// VJP-NEXT:    %[[V9:.*]] = stablehlo.pad %[[V8]], %[[CST]], low = [1], high = [0], interior = [0] : (tensor<5xf64>, tensor<f64>) -> tensor<6xf64>
// VJP-NEXT:    %[[V10:.*]] = stablehlo.multiply %[[V1]], %[[V9]] : tensor<6xf64>
// VJP-NEXT:    %[[V11:.*]] = stablehlo.pad %[[V10]], %[[CST]], low = [0], high = [1], interior = [0] : (tensor<6xf64>, tensor<f64>) -> tensor<7xf64>
// VJP-NEXT:    %[[V12:.*]] = stablehlo.multiply %[[V2]], %[[V9]] : tensor<6xf64>
// VJP-NEXT:    %[[V13:.*]] = stablehlo.pad %[[V12]], %[[CST]], low = [1], high = [0], interior = [0] : (tensor<6xf64>, tensor<f64>) -> tensor<7xf64>
// VJP-NEXT:    %[[V14:.*]] = stablehlo.add %[[V13]], %[[V11]] : tensor<7xf64>
// VJP-NEXT:    %[[V15:.*]] = stablehlo.add %[[V14]], %[[V6]] : tensor<7xf64>
// VJP-NEXT:    return %[[V0]], %[[V15]] : tensor<5xf64>, tensor<7xf64>

func.func @main(%x: tensor<7xf64>) -> tensor<5xf64> {
  %init = stablehlo.constant dense<1.0> : tensor<f64>
  %0 = "stablehlo.reduce_window"(%x, %init) <{window_dimensions = array<i64: 3>, window_strides = array<i64: 1>}> ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %1 = stablehlo.multiply %a, %b : tensor<f64>
    stablehlo.return %1 : tensor<f64>
  }) : (tensor<7xf64>, tensor<f64>) -> tensor<5xf64>
  return %0 : tensor<5xf64>
}
