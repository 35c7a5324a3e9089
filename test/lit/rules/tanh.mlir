// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// y' = 1 - y^2.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[V0:.*]] = stablehlo.tanh %arg0
// JVP-NEXT:    %[[V1:.*]] = stablehlo.multiply %[[V0]], %[[V0]]
// JVP-NEXT:    %[[V2:.*]] = stablehlo.subtract %[[C0]], %[[V1]]
// JVP-NEXT:    %[[V3:.*]] = stablehlo.multiply %[[V2]], %arg1
// JVP-NEXT:    return %[[V0]], %[[V3]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.tanh %arg0
// VJP-NEXT:    %[[V1:.*]] = stablehlo.multiply %[[V0]], %[[V0]]
// VJP-NEXT:    %[[V2:.*]] = stablehlo.subtract %[[C0]], %[[V1]]
// VJP-NEXT:    %[[V3:.*]] = stablehlo.multiply %[[V2]], %arg1
// VJP-NEXT:    return %[[V0]], %[[V3]]

func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {
  %0 = stablehlo.tanh %x : tensor<3xf64>
  return %0 : tensor<3xf64>
}
