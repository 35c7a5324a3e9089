// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// Tangents are broadcast, then follow the rule of stablehlo.divide; cotangents are summed.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = chlo.broadcast_divide %arg0, %arg1 : (tensor<f64>, tensor<3xf64>) -> tensor<3xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<f64>) -> tensor<3xf64>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.divide %[[V1]], %arg1
// JVP-NEXT:    %[[V3:.*]] = stablehlo.multiply %[[V2]], %arg3
// JVP-NEXT:    %[[V4:.*]] = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f64>) -> tensor<3xf64>
// JVP-NEXT:    %[[V5:.*]] = stablehlo.subtract %[[V4]], %[[V3]]
// JVP-NEXT:    %[[V6:.*]] = stablehlo.divide %[[V5]], %arg1
// JVP-NEXT:    return %[[V0]], %[[V6]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[V0:.*]] = chlo.broadcast_divide %arg0, %arg1 : (tensor<f64>, tensor<3xf64>) -> tensor<3xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.divide %arg2, %arg1
// VJP-NEXT:    %[[V2:.*]] = stablehlo.reduce(%[[V1]] init: %[[C0]]) applies stablehlo.add across dimensions = [0] : (tensor<3xf64>, tensor<f64>) -> tensor<f64>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.negate %[[V1]]
// VJP-NEXT:    %[[V4:.*]] = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<f64>) -> tensor<3xf64>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.divide %[[V4]], %arg1
// VJP-NEXT:    %[[V6:.*]] = stablehlo.multiply %[[V5]], %[[V3]]
// VJP-NEXT:    return %[[V0]], %[[V2]], %[[V6]]

func.func @main(%x: tensor<f64>, %y: tensor<3xf64>) -> tensor<3xf64> {
  %0 = chlo.broadcast_divide %x, %y : (tensor<f64>, tensor<3xf64>) -> tensor<3xf64>
  return %0 : tensor<3xf64>
}
