// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// The op becomes a sum and a transpose, each with its own rule.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// JVP-NEXT:    %[[V0:.*]] = stablehlo.unary_einsum %arg0, config = "abc->ca" : (tensor<2x3x4xf64>) -> tensor<4x2xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.reduce(%arg1 init: %[[CST]]) applies stablehlo.add across dimensions = [1] : (tensor<2x3x4xf64>, tensor<f64>) -> tensor<2x4xf64>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.transpose %[[V1]], dims = [1, 0] : (tensor<2x4xf64>) -> tensor<4x2xf64>
// JVP-NEXT:    return %[[V0]], %[[V2]] : tensor<4x2xf64>, tensor<4x2xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[V0:.*]] = stablehlo.unary_einsum %arg0, config = "abc->ca" : (tensor<2x3x4xf64>) -> tensor<4x2xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.transpose %arg1, dims = [1, 0] : (tensor<4x2xf64>) -> tensor<2x4xf64>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.broadcast_in_dim %[[V1]], dims = [0, 2] : (tensor<2x4xf64>) -> tensor<2x3x4xf64>
// VJP-NEXT:    return %[[V0]], %[[V2]] : tensor<4x2xf64>, tensor<2x3x4xf64>

func.func @main(%x: tensor<2x3x4xf64>) -> tensor<4x2xf64> {
  %0 = "stablehlo.unary_einsum"(%x) {einsum_config = "abc->ca"} : (tensor<2x3x4xf64>) -> tensor<4x2xf64>
  return %0 : tensor<4x2xf64>
}
