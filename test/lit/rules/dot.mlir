// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// The product rule. The transpose is a dot_general with the cotangent in place of an operand.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = stablehlo.dot %arg0, %arg1 : (tensor<2x3xf64>, tensor<3x4xf64>) -> tensor<2x4xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.dot %arg0, %arg3 : (tensor<2x3xf64>, tensor<3x4xf64>) -> tensor<2x4xf64>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.dot %arg2, %arg1 : (tensor<2x3xf64>, tensor<3x4xf64>) -> tensor<2x4xf64>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.add %[[V2]], %[[V1]] : tensor<2x4xf64>
// JVP-NEXT:    return %[[V0]], %[[V3]] : tensor<2x4xf64>, tensor<2x4xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[V0:.*]] = stablehlo.dot %arg0, %arg1 : (tensor<2x3xf64>, tensor<3x4xf64>) -> tensor<2x4xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.dot_general %arg2, %arg1, contracting_dims = [1] x [1] : (tensor<2x4xf64>, tensor<3x4xf64>) -> tensor<2x3xf64>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.dot_general %arg0, %arg2, contracting_dims = [0] x [0] : (tensor<2x3xf64>, tensor<2x4xf64>) -> tensor<3x4xf64>
// VJP-NEXT:    return %[[V0]], %[[V1]], %[[V2]] : tensor<2x4xf64>, tensor<2x3xf64>, tensor<3x4xf64>

func.func @main(%x: tensor<2x3xf64>, %y: tensor<3x4xf64>) -> tensor<2x4xf64> {
  %0 = stablehlo.dot %x, %y : (tensor<2x3xf64>, tensor<3x4xf64>) -> tensor<2x4xf64>
  return %0 : tensor<2x4xf64>
}
