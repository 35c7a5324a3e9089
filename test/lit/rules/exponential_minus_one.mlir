// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// y' = exp(x), because y + 1 would be 0 for x = -40.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = stablehlo.exponential_minus_one %arg0
// JVP-NEXT:    %[[V1:.*]] = stablehlo.exponential %arg0
// JVP-NEXT:    %[[V2:.*]] = stablehlo.multiply %[[V1]], %arg1
// JVP-NEXT:    return %[[V0]], %[[V2]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[V0:.*]] = stablehlo.exponential_minus_one %arg0
// VJP-NEXT:    %[[V1:.*]] = stablehlo.exponential %arg0
// VJP-NEXT:    %[[V2:.*]] = stablehlo.multiply %[[V1]], %arg1
// VJP-NEXT:    return %[[V0]], %[[V2]]

func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {
  %0 = stablehlo.exponential_minus_one %x : tensor<3xf64>
  return %0 : tensor<3xf64>
}
