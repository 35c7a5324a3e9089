// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// The op becomes a sum, a dot_general and a transpose, each with its own rule.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// JVP-NEXT:    %[[V0:.*]] = stablehlo.einsum %arg0, %arg1, config = "abx,bc->ca" : (tensor<2x3x5xf64>, tensor<3x4xf64>) -> tensor<4x2xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.reduce(%arg0 init: %[[CST]]) applies stablehlo.add across dimensions = [2] : (tensor<2x3x5xf64>, tensor<f64>) -> tensor<2x3xf64>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.dot_general %[[V1]], %arg3, contracting_dims = [1] x [0] : (tensor<2x3xf64>, tensor<3x4xf64>) -> tensor<2x4xf64>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.reduce(%arg2 init: %[[CST]]) applies stablehlo.add across dimensions = [2] : (tensor<2x3x5xf64>, tensor<f64>) -> tensor<2x3xf64>
// JVP-NEXT:    %[[V4:.*]] = stablehlo.dot_general %[[V3]], %arg1, contracting_dims = [1] x [0] : (tensor<2x3xf64>, tensor<3x4xf64>) -> tensor<2x4xf64>
// JVP-NEXT:    %[[V5:.*]] = stablehlo.add %[[V4]], %[[V2]] : tensor<2x4xf64>
// JVP-NEXT:    %[[V6:.*]] = stablehlo.transpose %[[V5]], dims = [1, 0] : (tensor<2x4xf64>) -> tensor<4x2xf64>
// JVP-NEXT:    return %[[V0]], %[[V6]] : tensor<4x2xf64>, tensor<4x2xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.einsum %arg0, %arg1, config = "abx,bc->ca" : (tensor<2x3x5xf64>, tensor<3x4xf64>) -> tensor<4x2xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.transpose %arg2, dims = [1, 0] : (tensor<4x2xf64>) -> tensor<2x4xf64>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.dot_general %[[V1]], %arg1, contracting_dims = [1] x [1] : (tensor<2x4xf64>, tensor<3x4xf64>) -> tensor<2x3xf64>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.broadcast_in_dim %[[V2]], dims = [0, 1] : (tensor<2x3xf64>) -> tensor<2x3x5xf64>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.reduce(%arg0 init: %[[CST]]) applies stablehlo.add across dimensions = [2] : (tensor<2x3x5xf64>, tensor<f64>) -> tensor<2x3xf64>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.dot_general %[[V4]], %[[V1]], contracting_dims = [0] x [0] : (tensor<2x3xf64>, tensor<2x4xf64>) -> tensor<3x4xf64>
// VJP-NEXT:    return %[[V0]], %[[V3]], %[[V5]] : tensor<4x2xf64>, tensor<2x3x5xf64>, tensor<3x4xf64>

func.func @main(%x: tensor<2x3x5xf64>, %y: tensor<3x4xf64>) -> tensor<4x2xf64> {
  %0 = "stablehlo.einsum"(%x, %y) {einsum_config = "abx,bc->ca"}
    : (tensor<2x3x5xf64>, tensor<3x4xf64>) -> tensor<4x2xf64>
  return %0 : tensor<4x2xf64>
}
