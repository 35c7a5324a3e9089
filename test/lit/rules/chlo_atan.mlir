// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// dy = dx / (1 + x^2).

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[V0:.*]] = chlo.atan %arg0
// JVP-NEXT:    %[[V1:.*]] = stablehlo.multiply %arg0, %arg0
// JVP-NEXT:    %[[V2:.*]] = stablehlo.add %[[V1]], %[[C0]]
// JVP-NEXT:    %[[V3:.*]] = stablehlo.divide %arg1, %[[V2]]
// JVP-NEXT:    return %[[V0]], %[[V3]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[V0:.*]] = chlo.atan %arg0
// VJP-NEXT:    %[[V1:.*]] = stablehlo.multiply %arg0, %arg0
// VJP-NEXT:    %[[V2:.*]] = stablehlo.add %[[V1]], %[[C0]]
// VJP-NEXT:    %[[V3:.*]] = stablehlo.divide %arg1, %[[V2]]
// VJP-NEXT:    return %[[V0]], %[[V3]]

func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {
  %0 = chlo.atan %x : tensor<3xf64> -> tensor<3xf64>
  return %0 : tensor<3xf64>
}
