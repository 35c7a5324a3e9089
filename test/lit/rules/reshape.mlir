// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// The transpose reshapes back.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = stablehlo.reshape %arg0 : (tensor<2x3xf64>) -> tensor<6xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.reshape %arg1 : (tensor<2x3xf64>) -> tensor<6xf64>
// JVP-NEXT:    return %[[V0]], %[[V1]] : tensor<6xf64>, tensor<6xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[V0:.*]] = stablehlo.reshape %arg0 : (tensor<2x3xf64>) -> tensor<6xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.reshape %arg1 : (tensor<6xf64>) -> tensor<2x3xf64>
// VJP-NEXT:    return %[[V0]], %[[V1]] : tensor<6xf64>, tensor<2x3xf64>

func.func @main(%x: tensor<2x3xf64>) -> tensor<6xf64> {
  %0 = stablehlo.reshape %x : (tensor<2x3xf64>) -> tensor<6xf64>
  return %0 : tensor<6xf64>
}
