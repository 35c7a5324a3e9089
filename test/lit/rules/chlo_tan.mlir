// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// y' = 1 + y^2.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[V0:.*]] = chlo.tan %arg0
// JVP-NEXT:    %[[V1:.*]] = stablehlo.multiply %[[V0]], %[[V0]]
// JVP-NEXT:    %[[V2:.*]] = stablehlo.add %[[V1]], %[[C0]]
// JVP-NEXT:    %[[V3:.*]] = stablehlo.multiply %[[V2]], %arg1
// JVP-NEXT:    return %[[V0]], %[[V3]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[V0:.*]] = chlo.tan %arg0
// VJP-NEXT:    %[[V1:.*]] = stablehlo.multiply %[[V0]], %[[V0]]
// VJP-NEXT:    %[[V2:.*]] = stablehlo.add %[[V1]], %[[C0]]
// VJP-NEXT:    %[[V3:.*]] = stablehlo.multiply %[[V2]], %arg1
// VJP-NEXT:    return %[[V0]], %[[V3]]

func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {
  %0 = chlo.tan %x : tensor<3xf64> -> tensor<3xf64>
  return %0 : tensor<3xf64>
}
