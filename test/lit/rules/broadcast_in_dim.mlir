// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// The transpose sums over new and expanded dimensions, then transposes to the operand's order.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = stablehlo.broadcast_in_dim %arg0, dims = [1, 2, 0] : (tensor<3x1x2xf64>) -> tensor<2x3x4xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.broadcast_in_dim %arg1, dims = [1, 2, 0] : (tensor<3x1x2xf64>) -> tensor<2x3x4xf64>
// JVP-NEXT:    return %[[V0]], %[[V1]] : tensor<2x3x4xf64>, tensor<2x3x4xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.broadcast_in_dim %arg0, dims = [1, 2, 0] : (tensor<3x1x2xf64>) -> tensor<2x3x4xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.reduce(%arg1 init: %[[CST]]) applies stablehlo.add across dimensions = [2] : (tensor<2x3x4xf64>, tensor<f64>) -> tensor<2x3xf64>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.transpose %[[V1]], dims = [1, 0] : (tensor<2x3xf64>) -> tensor<3x2xf64>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.reshape %[[V2]] : (tensor<3x2xf64>) -> tensor<3x1x2xf64>
// VJP-NEXT:    return %[[V0]], %[[V3]] : tensor<2x3x4xf64>, tensor<3x1x2xf64>

func.func @main(%x: tensor<3x1x2xf64>) -> tensor<2x3x4xf64> {
  %0 = stablehlo.broadcast_in_dim %x, dims = [1, 2, 0] : (tensor<3x1x2xf64>) -> tensor<2x3x4xf64>
  return %0 : tensor<2x3x4xf64>
}
