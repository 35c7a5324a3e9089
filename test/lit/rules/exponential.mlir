// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// y' = y: the primal result is reused.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = stablehlo.exponential %arg0
// JVP-NEXT:    %[[V1:.*]] = stablehlo.multiply %[[V0]], %arg1
// JVP-NEXT:    return %[[V0]], %[[V1]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[V0:.*]] = stablehlo.exponential %arg0
// VJP-NEXT:    %[[V1:.*]] = stablehlo.multiply %[[V0]], %arg1
// VJP-NEXT:    return %[[V0]], %[[V1]]

func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {
  %0 = stablehlo.exponential %x : tensor<3xf64>
  return %0 : tensor<3xf64>
}
