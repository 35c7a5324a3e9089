// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// Linear.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = stablehlo.negate %arg0
// JVP-NEXT:    %[[V1:.*]] = stablehlo.negate %arg1
// JVP-NEXT:    return %[[V0]], %[[V1]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[V0:.*]] = stablehlo.negate %arg0
// VJP-NEXT:    %[[V1:.*]] = stablehlo.negate %arg1
// VJP-NEXT:    return %[[V0]], %[[V1]]

func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {
  %0 = stablehlo.negate %x : tensor<3xf64>
  return %0 : tensor<3xf64>
}
