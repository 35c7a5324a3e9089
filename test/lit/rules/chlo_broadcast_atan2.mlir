// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// Tangents are broadcast, then follow the rule of stablehlo.atan2; cotangents are summed.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = chlo.broadcast_atan2 %arg0, %arg1 : (tensor<f64>, tensor<3xf64>) -> tensor<3xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.multiply %arg1, %arg1
// JVP-NEXT:    %[[V2:.*]] = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<f64>) -> tensor<3xf64>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.multiply %[[V2]], %[[V2]]
// JVP-NEXT:    %[[V4:.*]] = stablehlo.add %[[V3]], %[[V1]]
// JVP-NEXT:    %[[V5:.*]] = stablehlo.multiply %[[V2]], %arg3
// JVP-NEXT:    %[[V6:.*]] = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f64>) -> tensor<3xf64>
// JVP-NEXT:    %[[V7:.*]] = stablehlo.multiply %arg1, %[[V6]]
// JVP-NEXT:    %[[V8:.*]] = stablehlo.subtract %[[V7]], %[[V5]]
// JVP-NEXT:    %[[V9:.*]] = stablehlo.divide %[[V8]], %[[V4]]
// JVP-NEXT:    return %[[V0]], %[[V9]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[V0:.*]] = chlo.broadcast_atan2 %arg0, %arg1 : (tensor<f64>, tensor<3xf64>) -> tensor<3xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.multiply %arg1, %arg1
// VJP-NEXT:    %[[V2:.*]] = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<f64>) -> tensor<3xf64>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.multiply %[[V2]], %[[V2]]
// VJP-NEXT:    %[[V4:.*]] = stablehlo.add %[[V3]], %[[V1]]
// VJP-NEXT:    %[[V5:.*]] = stablehlo.divide %arg2, %[[V4]]
// VJP-NEXT:    %[[V6:.*]] = stablehlo.multiply %arg1, %[[V5]]
// VJP-NEXT:    %[[V7:.*]] = stablehlo.reduce(%[[V6]] init: %[[C0]]) applies stablehlo.add across dimensions = [0] : (tensor<3xf64>, tensor<f64>) -> tensor<f64>
// VJP-NEXT:    %[[V8:.*]] = stablehlo.negate %[[V5]]
// VJP-NEXT:    %[[V9:.*]] = stablehlo.multiply %[[V2]], %[[V8]]
// VJP-NEXT:    return %[[V0]], %[[V7]], %[[V9]]

func.func @main(%x: tensor<f64>, %y: tensor<3xf64>) -> tensor<3xf64> {
  %0 = chlo.broadcast_atan2 %x, %y : (tensor<f64>, tensor<3xf64>) -> tensor<3xf64>
  return %0 : tensor<3xf64>
}
