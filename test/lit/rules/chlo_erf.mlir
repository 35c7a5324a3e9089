// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// y' = 2 / sqrt(pi) exp(-x^2).

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<1.1283791670955126> : tensor<3xf64>
// JVP-NEXT:    %[[V0:.*]] = chlo.erf %arg0
// JVP-NEXT:    %[[V1:.*]] = stablehlo.multiply %arg0, %arg0
// JVP-NEXT:    %[[V2:.*]] = stablehlo.negate %[[V1]]
// JVP-NEXT:    %[[V3:.*]] = stablehlo.exponential %[[V2]]
// JVP-NEXT:    %[[V4:.*]] = stablehlo.multiply %[[V3]], %[[C0]]
// JVP-NEXT:    %[[V5:.*]] = stablehlo.multiply %[[V4]], %arg1
// JVP-NEXT:    return %[[V0]], %[[V5]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<1.1283791670955126> : tensor<3xf64>
// VJP-NEXT:    %[[V0:.*]] = chlo.erf %arg0
// VJP-NEXT:    %[[V1:.*]] = stablehlo.multiply %arg0, %arg0
// VJP-NEXT:    %[[V2:.*]] = stablehlo.negate %[[V1]]
// VJP-NEXT:    %[[V3:.*]] = stablehlo.exponential %[[V2]]
// VJP-NEXT:    %[[V4:.*]] = stablehlo.multiply %[[V3]], %[[C0]]
// VJP-NEXT:    %[[V5:.*]] = stablehlo.multiply %[[V4]], %arg1
// VJP-NEXT:    return %[[V0]], %[[V5]]

func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {
  %0 = chlo.erf %x : tensor<3xf64> -> tensor<3xf64>
  return %0 : tensor<3xf64>
}
