// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// The product rule in a binary tree, without a division.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<f64>
// JVP-NEXT:    %[[V0:.*]] = stablehlo.reduce(%arg0 init: %[[CST]]) applies stablehlo.multiply across dimensions = [1] : (tensor<2x4xf64>, tensor<f64>) -> tensor<2xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.transpose %arg1, dims = [1, 0] : (tensor<2x4xf64>) -> tensor<4x2xf64>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.slice %[[V1]] [2:4, 0:2] : (tensor<4x2xf64>) -> tensor<2x2xf64>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<2x4xf64>) -> tensor<4x2xf64>
// JVP-NEXT:    %[[V4:.*]] = stablehlo.slice %[[V3]] [0:2, 0:2] : (tensor<4x2xf64>) -> tensor<2x2xf64>
// JVP-NEXT:    %[[V5:.*]] = stablehlo.multiply %[[V4]], %[[V2]] : tensor<2x2xf64>
// JVP-NEXT:    %[[V6:.*]] = stablehlo.slice %[[V3]] [2:4, 0:2] : (tensor<4x2xf64>) -> tensor<2x2xf64>
// JVP-NEXT:    %[[V7:.*]] = stablehlo.slice %[[V1]] [0:2, 0:2] : (tensor<4x2xf64>) -> tensor<2x2xf64>
// JVP-NEXT:    %[[V8:.*]] = stablehlo.multiply %[[V7]], %[[V6]] : tensor<2x2xf64>
// JVP-NEXT:    %[[V9:.*]] = stablehlo.add %[[V8]], %[[V5]] : tensor<2x2xf64>
// JVP-NEXT:    %[[V10:.*]] = stablehlo.slice %[[V9]] [1:2, 0:2] : (tensor<2x2xf64>) -> tensor<1x2xf64>
// JVP-NEXT:    %[[V11:.*]] = stablehlo.multiply %[[V4]], %[[V6]] : tensor<2x2xf64>
// JVP-NEXT:    %[[V12:.*]] = stablehlo.slice %[[V11]] [0:1, 0:2] : (tensor<2x2xf64>) -> tensor<1x2xf64>
// JVP-NEXT:    %[[V13:.*]] = stablehlo.multiply %[[V12]], %[[V10]] : tensor<1x2xf64>
// JVP-NEXT:    %[[V14:.*]] = stablehlo.slice %[[V11]] [1:2, 0:2] : (tensor<2x2xf64>) -> tensor<1x2xf64>
// JVP-NEXT:    %[[V15:.*]] = stablehlo.slice %[[V9]] [0:1, 0:2] : (tensor<2x2xf64>) -> tensor<1x2xf64>
// JVP-NEXT:    %[[V16:.*]] = stablehlo.multiply %[[V15]], %[[V14]] : tensor<1x2xf64>
// JVP-NEXT:    %[[V17:.*]] = stablehlo.add %[[V16]], %[[V13]] : tensor<1x2xf64>
// JVP-NEXT:    %[[V18:.*]] = stablehlo.reshape %[[V17]] : (tensor<1x2xf64>) -> tensor<2xf64>
// JVP-NEXT:    return %[[V0]], %[[V18]] : tensor<2xf64>, tensor<2xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.reduce(%arg0 init: %[[CST_0]]) applies stablehlo.multiply across dimensions = [1] : (tensor<2x4xf64>, tensor<f64>) -> tensor<2xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.reshape %arg1 : (tensor<2xf64>) -> tensor<1x2xf64>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<2x4xf64>) -> tensor<4x2xf64>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.slice %[[V2]] [2:4, 0:2] : (tensor<4x2xf64>) -> tensor<2x2xf64>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.slice %[[V2]] [0:2, 0:2] : (tensor<4x2xf64>) -> tensor<2x2xf64>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.multiply %[[V4]], %[[V3]] : tensor<2x2xf64>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.slice %[[V5]] [1:2, 0:2] : (tensor<2x2xf64>) -> tensor<1x2xf64>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.multiply %[[V6]], %[[V1]] : tensor<1x2xf64>
// VJP-NEXT:    %[[V8:.*]] = stablehlo.pad %[[V7]], %[[CST]], low = [0, 0], high = [1, 0], interior = [0, 0] : (tensor<1x2xf64>, tensor<f64>) -> tensor<2x2xf64>
// VJP-NEXT:    %[[V9:.*]] = stablehlo.slice %[[V5]] [0:1, 0:2] : (tensor<2x2xf64>) -> tensor<1x2xf64>
// VJP-NEXT:    %[[V10:.*]] = stablehlo.multiply %[[V9]], %[[V1]] : tensor<1x2xf64>
// VJP-NEXT:    %[[V11:.*]] = stablehlo.pad %[[V10]], %[[CST]], low = [1, 0], high = [0, 0], interior = [0, 0] : (tensor<1x2xf64>, tensor<f64>) -> tensor<2x2xf64>
// VJP-NEXT:    %[[V12:.*]] = stablehlo.add %[[V11]], %[[V8]] : tensor<2x2xf64>
// VJP-NEXT:    %[[V13:.*]] = stablehlo.multiply %[[V3]], %[[V12]] : tensor<2x2xf64>
// VJP-NEXT:    %[[V14:.*]] = stablehlo.pad %[[V13]], %[[CST]], low = [0, 0], high = [2, 0], interior = [0, 0] : (tensor<2x2xf64>, tensor<f64>) -> tensor<4x2xf64>
// VJP-NEXT:    %[[V15:.*]] = stablehlo.multiply %[[V4]], %[[V12]] : tensor<2x2xf64>
// VJP-NEXT:    %[[V16:.*]] = stablehlo.pad %[[V15]], %[[CST]], low = [2, 0], high = [0, 0], interior = [0, 0] : (tensor<2x2xf64>, tensor<f64>) -> tensor<4x2xf64>
// VJP-NEXT:    %[[V17:.*]] = stablehlo.add %[[V16]], %[[V14]] : tensor<4x2xf64>
// VJP-NEXT:    %[[V18:.*]] = stablehlo.transpose %[[V17]], dims = [1, 0] : (tensor<4x2xf64>) -> tensor<2x4xf64>
// VJP-NEXT:    return %[[V0]], %[[V18]] : tensor<2xf64>, tensor<2x4xf64>

func.func @main(%x: tensor<2x4xf64>) -> tensor<2xf64> {
  %init = stablehlo.constant dense<1.0> : tensor<f64>
  %0 = stablehlo.reduce(%x init: %init) applies stablehlo.multiply across dimensions = [1] : (tensor<2x4xf64>, tensor<f64>) -> tensor<2xf64>
  return %0 : tensor<2xf64>
}
