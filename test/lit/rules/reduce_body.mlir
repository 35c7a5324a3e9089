// RUN: tiduc jvp %s --wrt x | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s --wrt x | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --wrt x --engine reference

// Any body, here x + y + x y / 2, combines neighbours as whole tensors, then the initial value.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<5.000000e-01> : tensor<1x2xf64>
// JVP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<5.000000e-01> : tensor<2xf64>
// JVP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<5.000000e-01> : tensor<f64>
// JVP-NEXT:    %[[V0:.*]] = stablehlo.reduce(%arg0 init: %arg1) across dimensions = [1] : (tensor<2x2xf64>, tensor<f64>) -> tensor<2xf64>
// JVP-NEXT:    reducer(%arg3: tensor<f64>, %arg4: tensor<f64>)  {
// JVP-NEXT:    %[[V24:.*]] = stablehlo.add %arg3, %arg4 : tensor<f64>
// JVP-NEXT:    %[[V25:.*]] = stablehlo.multiply %arg3, %arg4 : tensor<f64>
// JVP-NEXT:    %[[V26:.*]] = stablehlo.multiply %[[V25]], %[[CST_1]] : tensor<f64>
// JVP-NEXT:    %[[V27:.*]] = stablehlo.add %[[V24]], %[[V26]] : tensor<f64>
// JVP-NEXT:    stablehlo.return %[[V27]] : tensor<f64>
// JVP-NEXT:    }
// JVP-NEXT:    %[[V1:.*]] = stablehlo.transpose %arg2, dims = [1, 0] : (tensor<2x2xf64>) -> tensor<2x2xf64>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.reshape %[[V1]] : (tensor<2x2xf64>) -> tensor<1x2x2xf64>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.slice %[[V2]] [0:1, 1:2, 0:2] : (tensor<1x2x2xf64>) -> tensor<1x1x2xf64>
// JVP-NEXT:    %[[V4:.*]] = stablehlo.reshape %[[V3]] : (tensor<1x1x2xf64>) -> tensor<1x2xf64>
// JVP-NEXT:    %[[V5:.*]] = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<2x2xf64>) -> tensor<2x2xf64>
// JVP-NEXT:    %[[V6:.*]] = stablehlo.reshape %[[V5]] : (tensor<2x2xf64>) -> tensor<1x2x2xf64>
// JVP-NEXT:    %[[V7:.*]] = stablehlo.slice %[[V6]] [0:1, 0:1, 0:2] : (tensor<1x2x2xf64>) -> tensor<1x1x2xf64>
// JVP-NEXT:    %[[V8:.*]] = stablehlo.reshape %[[V7]] : (tensor<1x1x2xf64>) -> tensor<1x2xf64>
// JVP-NEXT:    %[[V9:.*]] = stablehlo.multiply %[[V8]], %[[V4]] : tensor<1x2xf64>
// JVP-NEXT:    %[[V10:.*]] = stablehlo.slice %[[V6]] [0:1, 1:2, 0:2] : (tensor<1x2x2xf64>) -> tensor<1x1x2xf64>
// JVP-NEXT:    %[[V11:.*]] = stablehlo.reshape %[[V10]] : (tensor<1x1x2xf64>) -> tensor<1x2xf64>
// JVP-NEXT:    %[[V12:.*]] = stablehlo.slice %[[V2]] [0:1, 0:1, 0:2] : (tensor<1x2x2xf64>) -> tensor<1x1x2xf64>
// JVP-NEXT:    %[[V13:.*]] = stablehlo.reshape %[[V12]] : (tensor<1x1x2xf64>) -> tensor<1x2xf64>
// JVP-NEXT:    %[[V14:.*]] = stablehlo.multiply %[[V13]], %[[V11]] : tensor<1x2xf64>
// JVP-NEXT:    %[[V15:.*]] = stablehlo.add %[[V14]], %[[V9]] : tensor<1x2xf64>
// JVP-NEXT:    %[[V16:.*]] = stablehlo.multiply %[[V15]], %[[CST]] : tensor<1x2xf64>
// JVP-NEXT:    %[[V17:.*]] = stablehlo.add %[[V13]], %[[V4]] : tensor<1x2xf64>
// JVP-NEXT:    %[[V18:.*]] = stablehlo.add %[[V17]], %[[V16]] : tensor<1x2xf64>
// JVP-NEXT:    %[[V19:.*]] = stablehlo.reshape %[[V18]] : (tensor<1x2xf64>) -> tensor<2xf64>
// JVP-NEXT:    %[[V20:.*]] = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f64>) -> tensor<2xf64>
// JVP-NEXT:    %[[V21:.*]] = stablehlo.multiply %[[V20]], %[[V19]] : tensor<2xf64>
// JVP-NEXT:    %[[V22:.*]] = stablehlo.multiply %[[V21]], %[[CST_0]] : tensor<2xf64>
// JVP-NEXT:    %[[V23:.*]] = stablehlo.add %[[V19]], %[[V22]] : tensor<2xf64>
// JVP-NEXT:    return %[[V0]], %[[V23]] : tensor<2xf64>, tensor<2xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<5.000000e-01> : tensor<1x2xf64>
// VJP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<5.000000e-01> : tensor<2xf64>
// VJP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[CST_2:.*]] = stablehlo.constant dense<5.000000e-01> : tensor<f64>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.reduce(%arg0 init: %arg1) across dimensions = [1] : (tensor<2x2xf64>, tensor<f64>) -> tensor<2xf64>
// VJP-NEXT:    reducer(%arg3: tensor<f64>, %arg4: tensor<f64>)  {
// VJP-NEXT:    %[[V24:.*]] = stablehlo.add %arg3, %arg4 : tensor<f64>
// VJP-NEXT:    %[[V25:.*]] = stablehlo.multiply %arg3, %arg4 : tensor<f64>
// VJP-NEXT:    %[[V26:.*]] = stablehlo.multiply %[[V25]], %[[CST_2]] : tensor<f64>
// VJP-NEXT:    %[[V27:.*]] = stablehlo.add %[[V24]], %[[V26]] : tensor<f64>
// VJP-NEXT:    stablehlo.return %[[V27]] : tensor<f64>
// VJP-NEXT:    }
// VJP-NEXT:    %[[V1:.*]] = stablehlo.multiply %arg2, %[[CST_0]] : tensor<2xf64>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f64>) -> tensor<2xf64>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.multiply %[[V2]], %[[V1]] : tensor<2xf64>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.add %arg2, %[[V3]] : tensor<2xf64>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.reshape %[[V4]] : (tensor<2xf64>) -> tensor<1x2xf64>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.multiply %[[V5]], %[[CST]] : tensor<1x2xf64>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<2x2xf64>) -> tensor<2x2xf64>
// VJP-NEXT:    %[[V8:.*]] = stablehlo.reshape %[[V7]] : (tensor<2x2xf64>) -> tensor<1x2x2xf64>
// VJP-NEXT:    %[[V9:.*]] = stablehlo.slice %[[V8]] [0:1, 1:2, 0:2] : (tensor<1x2x2xf64>) -> tensor<1x1x2xf64>
// VJP-NEXT:    %[[V10:.*]] = stablehlo.reshape %[[V9]] : (tensor<1x1x2xf64>) -> tensor<1x2xf64>
// VJP-NEXT:    %[[V11:.*]] = stablehlo.multiply %[[V10]], %[[V6]] : tensor<1x2xf64>
// VJP-NEXT:    %[[V12:.*]] = stablehlo.add %[[V11]], %[[V5]] : tensor<1x2xf64>
// VJP-NEXT:    %[[V13:.*]] = stablehlo.reshape %[[V12]] : (tensor<1x2xf64>) -> tensor<1x1x2xf64>
// VJP-NEXT:    %[[V14:.*]] = stablehlo.pad %[[V13]], %[[CST_1]], low = [0, 0, 0], high = [0, 1, 0], interior = [0, 0, 0] : (tensor<1x1x2xf64>, tensor<f64>) -> tensor<1x2x2xf64>
// VJP-NEXT:    %[[V15:.*]] = stablehlo.slice %[[V8]] [0:1, 0:1, 0:2] : (tensor<1x2x2xf64>) -> tensor<1x1x2xf64>
// VJP-NEXT:    %[[V16:.*]] = stablehlo.reshape %[[V15]] : (tensor<1x1x2xf64>) -> tensor<1x2xf64>
// VJP-NEXT:    %[[V17:.*]] = stablehlo.multiply %[[V16]], %[[V6]] : tensor<1x2xf64>
// VJP-NEXT:    %[[V18:.*]] = stablehlo.add %[[V17]], %[[V5]] : tensor<1x2xf64>
// VJP-NEXT:    %[[V19:.*]] = stablehlo.reshape %[[V18]] : (tensor<1x2xf64>) -> tensor<1x1x2xf64>
// VJP-NEXT:    %[[V20:.*]] = stablehlo.pad %[[V19]], %[[CST_1]], low = [0, 1, 0], high = [0, 0, 0], interior = [0, 0, 0] : (tensor<1x1x2xf64>, tensor<f64>) -> tensor<1x2x2xf64>
// VJP-NEXT:    %[[V21:.*]] = stablehlo.add %[[V20]], %[[V14]] : tensor<1x2x2xf64>
// VJP-NEXT:    %[[V22:.*]] = stablehlo.reshape %[[V21]] : (tensor<1x2x2xf64>) -> tensor<2x2xf64>
// VJP-NEXT:    %[[V23:.*]] = stablehlo.transpose %[[V22]], dims = [1, 0] : (tensor<2x2xf64>) -> tensor<2x2xf64>
// VJP-NEXT:    return %[[V0]], %[[V23]] : tensor<2xf64>, tensor<2x2xf64>

func.func @main(%x: tensor<2x2xf64> {tidu.name = "x"}, %init: tensor<f64>) -> tensor<2xf64> {
  %c = stablehlo.constant dense<0.5> : tensor<f64>
  %0 = stablehlo.reduce(%x init: %init) across dimensions = [1]
    : (tensor<2x2xf64>, tensor<f64>) -> tensor<2xf64>
   reducer(%a: tensor<f64>, %b: tensor<f64>) {
    %1 = stablehlo.add %a, %b : tensor<f64>
    %2 = stablehlo.multiply %a, %b : tensor<f64>
    %3 = stablehlo.multiply %2, %c : tensor<f64>
    %4 = stablehlo.add %1, %3 : tensor<f64>
    stablehlo.return %4 : tensor<f64>
  }
  return %0 : tensor<2xf64>
}
