// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// The product rule. In the transpose, the cotangent replaces an operand, and each precision keeps its side.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = stablehlo.dot_general %arg0, %arg1, batching_dims = [0] x [2], contracting_dims = [2] x [0], precision = [HIGHEST, DEFAULT] : (tensor<2x5x3xf32>, tensor<3x4x2xbf16>) -> tensor<2x5x4xf32>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.dot_general %arg0, %arg3, batching_dims = [0] x [2], contracting_dims = [2] x [0], precision = [HIGHEST, DEFAULT] : (tensor<2x5x3xf32>, tensor<3x4x2xbf16>) -> tensor<2x5x4xf32>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.dot_general %arg2, %arg1, batching_dims = [0] x [2], contracting_dims = [2] x [0], precision = [HIGHEST, DEFAULT] : (tensor<2x5x3xf32>, tensor<3x4x2xbf16>) -> tensor<2x5x4xf32>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.add %[[V2]], %[[V1]] : tensor<2x5x4xf32>
// JVP-NEXT:    return %[[V0]], %[[V3]] : tensor<2x5x4xf32>, tensor<2x5x4xf32>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[V0:.*]] = stablehlo.dot_general %arg0, %arg1, batching_dims = [0] x [2], contracting_dims = [2] x [0], precision = [HIGHEST, DEFAULT] : (tensor<2x5x3xf32>, tensor<3x4x2xbf16>) -> tensor<2x5x4xf32>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.convert %arg1 : (tensor<3x4x2xbf16>) -> tensor<3x4x2xf32>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.dot_general %arg2, %[[V1]], batching_dims = [0] x [2], contracting_dims = [2] x [1], precision = [HIGHEST, DEFAULT] : (tensor<2x5x4xf32>, tensor<3x4x2xf32>) -> tensor<2x5x3xf32>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.dot_general %arg0, %arg2, batching_dims = [0] x [0], contracting_dims = [1] x [1], precision = [HIGHEST, DEFAULT] : (tensor<2x5x3xf32>, tensor<2x5x4xf32>) -> tensor<2x3x4xf32>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.transpose %[[V3]], dims = [1, 2, 0] : (tensor<2x3x4xf32>) -> tensor<3x4x2xf32>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.convert %[[V4]] : (tensor<3x4x2xf32>) -> tensor<3x4x2xbf16>
// VJP-NEXT:    return %[[V0]], %[[V2]], %[[V5]] : tensor<2x5x4xf32>, tensor<2x5x3xf32>, tensor<3x4x2xbf16>

func.func @main(%x: tensor<2x5x3xf32>, %y: tensor<3x4x2xbf16>) -> tensor<2x5x4xf32> {
  %0 = stablehlo.dot_general %x, %y, batching_dims = [0] x [2], contracting_dims = [2] x [0], precision = [HIGHEST, DEFAULT]
    : (tensor<2x5x3xf32>, tensor<3x4x2xbf16>) -> tensor<2x5x4xf32>
  return %0 : tensor<2x5x4xf32>
}
