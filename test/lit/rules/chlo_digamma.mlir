// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// y' = polygamma(1, x).

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[V0:.*]] = chlo.digamma %arg0
// JVP-NEXT:    %[[V1:.*]] = chlo.polygamma %[[C0]], %arg0
// JVP-NEXT:    %[[V2:.*]] = stablehlo.multiply %[[V1]], %arg1
// JVP-NEXT:    return %[[V0]], %[[V2]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[V0:.*]] = chlo.digamma %arg0
// VJP-NEXT:    %[[V1:.*]] = chlo.polygamma %[[C0]], %arg0
// VJP-NEXT:    %[[V2:.*]] = stablehlo.multiply %[[V1]], %arg1
// VJP-NEXT:    return %[[V0]], %[[V2]]

func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {
  %0 = chlo.digamma %x : tensor<3xf64> -> tensor<3xf64>
  return %0 : tensor<3xf64>
}
