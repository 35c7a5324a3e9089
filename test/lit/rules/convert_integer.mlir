// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// An integer has no tangent.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = stablehlo.convert %arg0 : (tensor<3xf64>) -> tensor<3xi32>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.convert %[[V0]] : (tensor<3xi32>) -> tensor<3xf64>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.multiply %[[V1]], %arg0
// JVP-NEXT:    %[[V3:.*]] = stablehlo.multiply %[[V1]], %arg1
// JVP-NEXT:    return %[[V2]], %[[V3]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[V0:.*]] = stablehlo.convert %arg0 : (tensor<3xf64>) -> tensor<3xi32>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.convert %[[V0]] : (tensor<3xi32>) -> tensor<3xf64>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.multiply %[[V1]], %arg0
// VJP-NEXT:    %[[V3:.*]] = stablehlo.multiply %[[V1]], %arg1
// VJP-NEXT:    return %[[V2]], %[[V3]]

func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {
  %0 = stablehlo.convert %x : (tensor<3xf64>) -> tensor<3xi32>
  %1 = stablehlo.convert %0 : (tensor<3xi32>) -> tensor<3xf64>
  %2 = stablehlo.multiply %1, %x : tensor<3xf64>
  return %2 : tensor<3xf64>
}
