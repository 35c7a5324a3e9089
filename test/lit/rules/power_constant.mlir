// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// A constant exponent needs no special case at 0.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<2.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[C1:.*]] = stablehlo.constant dense<3.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[V0:.*]] = stablehlo.power %arg0, %[[C1]]
// JVP-NEXT:    %[[V1:.*]] = stablehlo.power %arg0, %[[C0]]
// JVP-NEXT:    %[[V2:.*]] = stablehlo.multiply %[[V1]], %[[C1]]
// JVP-NEXT:    %[[V3:.*]] = stablehlo.multiply %[[V2]], %arg1
// JVP-NEXT:    return %[[V0]], %[[V3]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<2.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[C1:.*]] = stablehlo.constant dense<3.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.power %arg0, %[[C1]]
// VJP-NEXT:    %[[V1:.*]] = stablehlo.power %arg0, %[[C0]]
// VJP-NEXT:    %[[V2:.*]] = stablehlo.multiply %[[V1]], %[[C1]]
// VJP-NEXT:    %[[V3:.*]] = stablehlo.multiply %[[V2]], %arg1
// VJP-NEXT:    return %[[V0]], %[[V3]]

func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {
  %n = stablehlo.constant dense<3.0> : tensor<3xf64>
  %0 = stablehlo.power %x, %n : tensor<3xf64>
  return %0 : tensor<3xf64>
}
