// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// The transpose is the sum over the new dimensions.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = stablehlo.broadcast %arg0, sizes = [2, 4] : (tensor<3xf64>) -> tensor<2x4x3xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.broadcast %arg1, sizes = [2, 4] : (tensor<3xf64>) -> tensor<2x4x3xf64>
// JVP-NEXT:    return %[[V0]], %[[V1]] : tensor<2x4x3xf64>, tensor<2x4x3xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.broadcast %arg0, sizes = [2, 4] : (tensor<3xf64>) -> tensor<2x4x3xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.reduce(%arg1 init: %[[CST]]) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4x3xf64>, tensor<f64>) -> tensor<3xf64>
// VJP-NEXT:    return %[[V0]], %[[V1]] : tensor<2x4x3xf64>, tensor<3xf64>

func.func @main(%x: tensor<3xf64>) -> tensor<2x4x3xf64> {
  %0 = stablehlo.broadcast %x, sizes = [2, 4] : (tensor<3xf64>) -> tensor<2x4x3xf64>
  return %0 : tensor<2x4x3xf64>
}
