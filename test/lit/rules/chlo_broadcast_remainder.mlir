// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// Tangents are broadcast, then follow the rule of stablehlo.remainder; cotangents are summed.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = chlo.broadcast_remainder %arg0, %arg1 : (tensor<f64>, tensor<3xf64>) -> tensor<3xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<f64>) -> tensor<3xf64>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.remainder %[[V1]], %arg1
// JVP-NEXT:    %[[V3:.*]] = stablehlo.subtract %[[V1]], %[[V2]]
// JVP-NEXT:    %[[V4:.*]] = stablehlo.divide %[[V3]], %arg1
// JVP-NEXT:    %[[V5:.*]] = stablehlo.round_nearest_even %[[V4]]
// JVP-NEXT:    %[[V6:.*]] = stablehlo.multiply %[[V5]], %arg3
// JVP-NEXT:    %[[V7:.*]] = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f64>) -> tensor<3xf64>
// JVP-NEXT:    %[[V8:.*]] = stablehlo.subtract %[[V7]], %[[V6]]
// JVP-NEXT:    return %[[V0]], %[[V8]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[V0:.*]] = chlo.broadcast_remainder %arg0, %arg1 : (tensor<f64>, tensor<3xf64>) -> tensor<3xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.reduce(%arg2 init: %[[C0]]) applies stablehlo.add across dimensions = [0] : (tensor<3xf64>, tensor<f64>) -> tensor<f64>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.negate %arg2
// VJP-NEXT:    %[[V3:.*]] = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<f64>) -> tensor<3xf64>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.remainder %[[V3]], %arg1
// VJP-NEXT:    %[[V5:.*]] = stablehlo.subtract %[[V3]], %[[V4]]
// VJP-NEXT:    %[[V6:.*]] = stablehlo.divide %[[V5]], %arg1
// VJP-NEXT:    %[[V7:.*]] = stablehlo.round_nearest_even %[[V6]]
// VJP-NEXT:    %[[V8:.*]] = stablehlo.multiply %[[V7]], %[[V2]]
// VJP-NEXT:    return %[[V0]], %[[V1]], %[[V8]]

func.func @main(%x: tensor<f64>, %y: tensor<3xf64>) -> tensor<3xf64> {
  %0 = chlo.broadcast_remainder %x, %y : (tensor<f64>, tensor<3xf64>) -> tensor<3xf64>
  return %0 : tensor<3xf64>
}
