// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// A prefix scan without windows: first over pairs, then the positions between them.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<f64>
// JVP-NEXT:    %[[V0:.*]] = "stablehlo.reduce_window"(%arg0, %[[CST]]) <{padding = dense<[[2, 0]]> : tensor<1x2xi64>, window_dimensions = array<i64: 3>}> ({
// JVP-NEXT:    ^bb0(%arg2: tensor<f64>, %arg3: tensor<f64>):
// JVP-NEXT:    %[[V28:.*]] = stablehlo.multiply %arg2, %arg3 : tensor<f64>
// JVP-NEXT:    stablehlo.return %[[V28]] : tensor<f64>
// JVP-NEXT:    }) : (tensor<3xf64>, tensor<f64>) -> tensor<3xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.slice %arg1 [2:3] : (tensor<3xf64>) -> tensor<1xf64>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.slice %arg0 [0:2] : (tensor<3xf64>) -> tensor<2xf64>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.reshape %[[V2]] : (tensor<2xf64>) -> tensor<1x2xf64>
// JVP-NEXT:    %[[V4:.*]] = stablehlo.slice %[[V3]] [0:1, 1:2] : (tensor<1x2xf64>) -> tensor<1x1xf64>
// JVP-NEXT:    %[[V5:.*]] = stablehlo.reshape %[[V4]] : (tensor<1x1xf64>) -> tensor<1xf64>
// JVP-NEXT:    %[[V6:.*]] = stablehlo.slice %[[V3]] [0:1, 0:1] : (tensor<1x2xf64>) -> tensor<1x1xf64>
// JVP-NEXT:    %[[V7:.*]] = stablehlo.reshape %[[V6]] : (tensor<1x1xf64>) -> tensor<1xf64>
// JVP-NEXT:    %[[V8:.*]] = stablehlo.multiply %[[V7]], %[[V5]] : tensor<1xf64>
// JVP-NEXT:    %[[V9:.*]] = stablehlo.multiply %[[V8]], %[[V1]] : tensor<1xf64>
// JVP-NEXT:    %[[V10:.*]] = stablehlo.slice %arg0 [2:3] : (tensor<3xf64>) -> tensor<1xf64>
// JVP-NEXT:    %[[V11:.*]] = stablehlo.slice %arg1 [0:2] : (tensor<3xf64>) -> tensor<2xf64>
// JVP-NEXT:    %[[V12:.*]] = stablehlo.reshape %[[V11]] : (tensor<2xf64>) -> tensor<1x2xf64>
// JVP-NEXT:    %[[V13:.*]] = stablehlo.slice %[[V12]] [0:1, 1:2] : (tensor<1x2xf64>) -> tensor<1x1xf64>
// JVP-NEXT:    %[[V14:.*]] = stablehlo.reshape %[[V13]] : (tensor<1x1xf64>) -> tensor<1xf64>
// JVP-NEXT:    %[[V15:.*]] = stablehlo.multiply %[[V7]], %[[V14]] : tensor<1xf64>
// JVP-NEXT:    %[[V16:.*]] = stablehlo.slice %[[V12]] [0:1, 0:1] : (tensor<1x2xf64>) -> tensor<1x1xf64>
// JVP-NEXT:    %[[V17:.*]] = stablehlo.reshape %[[V16]] : (tensor<1x1xf64>) -> tensor<1xf64>
// JVP-NEXT:    %[[V18:.*]] = stablehlo.multiply %[[V17]], %[[V5]] : tensor<1xf64>
// JVP-NEXT:    %[[V19:.*]] = stablehlo.add %[[V18]], %[[V15]] : tensor<1xf64>
// JVP-NEXT:    %[[V20:.*]] = stablehlo.multiply %[[V19]], %[[V10]] : tensor<1xf64>
// JVP-NEXT:    %[[V21:.*]] = stablehlo.add %[[V20]], %[[V9]] : tensor<1xf64>
// JVP-NEXT:    %[[V22:.*]] = stablehlo.slice %arg1 [0:1] : (tensor<3xf64>) -> tensor<1xf64>
// JVP-NEXT:    %[[V23:.*]] = stablehlo.reshape %[[V19]] : (tensor<1xf64>) -> tensor<1x1xf64>
// JVP-NEXT:    %[[V24:.*]] = stablehlo.reshape %[[V22]] : (tensor<1xf64>) -> tensor<1x1xf64>
// JVP-NEXT:    %[[V25:.*]] = stablehlo.concatenate %[[V24]], %[[V23]], dim = 1 : (tensor<1x1xf64>, tensor<1x1xf64>) -> tensor<1x2xf64>
// JVP-NEXT:    %[[V26:.*]] = stablehlo.reshape %[[V25]] : (tensor<1x2xf64>) -> tensor<2xf64>
// JVP-NEXT:    %[[V27:.*]] = stablehlo.concatenate %[[V26]], %[[V21]], dim = 0 : (tensor<2xf64>, tensor<1xf64>) -> tensor<3xf64>
// JVP-NEXT:    return %[[V0]], %[[V27]] : tensor<3xf64>, tensor<3xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[V0:.*]] = "stablehlo.reduce_window"(%arg0, %[[CST_0]]) <{padding = dense<[[2, 0]]> : tensor<1x2xi64>, window_dimensions = array<i64: 3>}> ({
// VJP-NEXT:    ^bb0(%arg2: tensor<f64>, %arg3: tensor<f64>):
// VJP-NEXT:    %[[V37:.*]] = stablehlo.multiply %arg2, %arg3 : tensor<f64>
// VJP-NEXT:    stablehlo.return %[[V37]] : tensor<f64>
// VJP-NEXT:    }) : (tensor<3xf64>, tensor<f64>) -> tensor<3xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.slice %arg1 [2:3] : (tensor<3xf64>) -> tensor<1xf64>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.pad %[[V1]], %[[CST]], low = [1], high = [0], interior = [0] : (tensor<1xf64>, tensor<f64>) -> tensor<2xf64>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.slice %arg1 [0:2] : (tensor<3xf64>) -> tensor<2xf64>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.reshape %[[V3]] : (tensor<2xf64>) -> tensor<1x2xf64>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.slice %[[V4]] [0:1, 0:1] : (tensor<1x2xf64>) -> tensor<1x1xf64>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.reshape %[[V5]] : (tensor<1x1xf64>) -> tensor<1xf64>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.pad %[[V6]], %[[CST]], low = [0], high = [1], interior = [0] : (tensor<1xf64>, tensor<f64>) -> tensor<2xf64>
// VJP-NEXT:    %[[V8:.*]] = stablehlo.add %[[V7]], %[[V2]] : tensor<2xf64>
// VJP-NEXT:    %[[V9:.*]] = stablehlo.slice %[[V8]] [1:2] : (tensor<2xf64>) -> tensor<1xf64>
// VJP-NEXT:    %[[V10:.*]] = stablehlo.slice %arg0 [2:3] : (tensor<3xf64>) -> tensor<1xf64>
// VJP-NEXT:    %[[V11:.*]] = stablehlo.multiply %[[V10]], %[[V9]] : tensor<1xf64>
// VJP-NEXT:    %[[V12:.*]] = stablehlo.slice %[[V4]] [0:1, 1:2] : (tensor<1x2xf64>) -> tensor<1x1xf64>
// VJP-NEXT:    %[[V13:.*]] = stablehlo.reshape %[[V12]] : (tensor<1x1xf64>) -> tensor<1xf64>
// VJP-NEXT:    %[[V14:.*]] = stablehlo.add %[[V13]], %[[V11]] : tensor<1xf64>
// VJP-NEXT:    %[[V15:.*]] = stablehlo.slice %arg0 [0:2] : (tensor<3xf64>) -> tensor<2xf64>
// VJP-NEXT:    %[[V16:.*]] = stablehlo.reshape %[[V15]] : (tensor<2xf64>) -> tensor<1x2xf64>
// VJP-NEXT:    %[[V17:.*]] = stablehlo.slice %[[V16]] [0:1, 1:2] : (tensor<1x2xf64>) -> tensor<1x1xf64>
// VJP-NEXT:    %[[V18:.*]] = stablehlo.reshape %[[V17]] : (tensor<1x1xf64>) -> tensor<1xf64>
// VJP-NEXT:    %[[V19:.*]] = stablehlo.multiply %[[V18]], %[[V14]] : tensor<1xf64>
// VJP-NEXT:    %[[V20:.*]] = stablehlo.reshape %[[V19]] : (tensor<1xf64>) -> tensor<1x1xf64>
// VJP-NEXT:    %[[V21:.*]] = stablehlo.pad %[[V20]], %[[CST]], low = [0, 0], high = [0, 1], interior = [0, 0] : (tensor<1x1xf64>, tensor<f64>) -> tensor<1x2xf64>
// VJP-NEXT:    %[[V22:.*]] = stablehlo.slice %[[V16]] [0:1, 0:1] : (tensor<1x2xf64>) -> tensor<1x1xf64>
// VJP-NEXT:    %[[V23:.*]] = stablehlo.reshape %[[V22]] : (tensor<1x1xf64>) -> tensor<1xf64>
// VJP-NEXT:    %[[V24:.*]] = stablehlo.multiply %[[V23]], %[[V14]] : tensor<1xf64>
// VJP-NEXT:    %[[V25:.*]] = stablehlo.reshape %[[V24]] : (tensor<1xf64>) -> tensor<1x1xf64>
// VJP-NEXT:    %[[V26:.*]] = stablehlo.pad %[[V25]], %[[CST]], low = [0, 1], high = [0, 0], interior = [0, 0] : (tensor<1x1xf64>, tensor<f64>) -> tensor<1x2xf64>
// VJP-NEXT:    %[[V27:.*]] = stablehlo.add %[[V26]], %[[V21]] : tensor<1x2xf64>
// VJP-NEXT:    %[[V28:.*]] = stablehlo.reshape %[[V27]] : (tensor<1x2xf64>) -> tensor<2xf64>
// VJP-NEXT:    %[[V29:.*]] = stablehlo.pad %[[V28]], %[[CST]], low = [0], high = [1], interior = [0] : (tensor<2xf64>, tensor<f64>) -> tensor<3xf64>
// VJP-NEXT:    %[[V30:.*]] = stablehlo.slice %[[V8]] [0:1] : (tensor<2xf64>) -> tensor<1xf64>
// VJP-NEXT:    %[[V31:.*]] = stablehlo.pad %[[V30]], %[[CST]], low = [0], high = [2], interior = [0] : (tensor<1xf64>, tensor<f64>) -> tensor<3xf64>
// VJP-NEXT:    %[[V32:.*]] = stablehlo.multiply %[[V23]], %[[V18]] : tensor<1xf64>
// VJP-NEXT:    %[[V33:.*]] = stablehlo.multiply %[[V32]], %[[V9]] : tensor<1xf64>
// VJP-NEXT:    %[[V34:.*]] = stablehlo.pad %[[V33]], %[[CST]], low = [2], high = [0], interior = [0] : (tensor<1xf64>, tensor<f64>) -> tensor<3xf64>
// VJP-NEXT:    %[[V35:.*]] = stablehlo.add %[[V34]], %[[V31]] : tensor<3xf64>
// VJP-NEXT:    %[[V36:.*]] = stablehlo.add %[[V35]], %[[V29]] : tensor<3xf64>
// VJP-NEXT:    return %[[V0]], %[[V36]] : tensor<3xf64>, tensor<3xf64>

func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {
  %init = stablehlo.constant dense<1.0> : tensor<f64>
  %0 = "stablehlo.reduce_window"(%x, %init) <{window_dimensions = array<i64: 3>, padding = dense<[[2, 0]]> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %1 = stablehlo.multiply %a, %b : tensor<f64>
    stablehlo.return %1 : tensor<f64>
  }) : (tensor<3xf64>, tensor<f64>) -> tensor<3xf64>
  return %0 : tensor<3xf64>
}
