// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// The op is linear. The transpose converts back.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = stablehlo.convert %arg0 : (tensor<3xf64>) -> tensor<3xf32>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.convert %arg1 : (tensor<3xf64>) -> tensor<3xf32>
// JVP-NEXT:    return %[[V0]], %[[V1]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[V0:.*]] = stablehlo.convert %arg0 : (tensor<3xf64>) -> tensor<3xf32>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.convert %arg1 : (tensor<3xf32>) -> tensor<3xf64>
// VJP-NEXT:    return %[[V0]], %[[V1]]

func.func @main(%x: tensor<3xf64>) -> tensor<3xf32> {
  %0 = stablehlo.convert %x : (tensor<3xf64>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
