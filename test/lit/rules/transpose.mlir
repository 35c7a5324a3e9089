// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// The transpose is the inverse permutation.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = stablehlo.transpose %arg0, dims = [2, 0, 1] : (tensor<2x3x4xf64>) -> tensor<4x2x3xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.transpose %arg1, dims = [2, 0, 1] : (tensor<2x3x4xf64>) -> tensor<4x2x3xf64>
// JVP-NEXT:    return %[[V0]], %[[V1]] : tensor<4x2x3xf64>, tensor<4x2x3xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[V0:.*]] = stablehlo.transpose %arg0, dims = [2, 0, 1] : (tensor<2x3x4xf64>) -> tensor<4x2x3xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.transpose %arg1, dims = [1, 2, 0] : (tensor<4x2x3xf64>) -> tensor<2x3x4xf64>
// VJP-NEXT:    return %[[V0]], %[[V1]] : tensor<4x2x3xf64>, tensor<2x3x4xf64>

func.func @main(%x: tensor<2x3x4xf64>) -> tensor<4x2x3xf64> {
  %0 = stablehlo.transpose %x, dims = [2, 0, 1] : (tensor<2x3x4xf64>) -> tensor<4x2x3xf64>
  return %0 : tensor<4x2x3xf64>
}
