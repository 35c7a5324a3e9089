// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// A sum is linear. The transpose is a broadcast.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// JVP-NEXT:    %[[V0:.*]] = stablehlo.reduce(%arg0 init: %[[CST]]) applies stablehlo.add across dimensions = [1] : (tensor<2x4xf64>, tensor<f64>) -> tensor<2xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.reduce(%arg1 init: %[[CST]]) applies stablehlo.add across dimensions = [1] : (tensor<2x4xf64>, tensor<f64>) -> tensor<2xf64>
// JVP-NEXT:    return %[[V0]], %[[V1]] : tensor<2xf64>, tensor<2xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.reduce(%arg0 init: %[[CST]]) applies stablehlo.add across dimensions = [1] : (tensor<2x4xf64>, tensor<f64>) -> tensor<2xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.broadcast_in_dim %arg1, dims = [0] : (tensor<2xf64>) -> tensor<2x4xf64>
// VJP-NEXT:    return %[[V0]], %[[V1]] : tensor<2xf64>, tensor<2x4xf64>

func.func @main(%x: tensor<2x4xf64>) -> tensor<2xf64> {
  %init = stablehlo.constant dense<0.0> : tensor<f64>
  %0 = stablehlo.reduce(%x init: %init) applies stablehlo.add across dimensions = [1] : (tensor<2x4xf64>, tensor<f64>) -> tensor<2xf64>
  return %0 : tensor<2xf64>
}
