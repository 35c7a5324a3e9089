// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --input 0.5,1,2 --engine reference

// dy = dx / 2y.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<2.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[V0:.*]] = stablehlo.sqrt %arg0
// JVP-NEXT:    %[[V1:.*]] = stablehlo.multiply %[[V0]], %[[C0]]
// JVP-NEXT:    %[[V2:.*]] = stablehlo.divide %arg1, %[[V1]]
// JVP-NEXT:    return %[[V0]], %[[V2]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<2.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.sqrt %arg0
// VJP-NEXT:    %[[V1:.*]] = stablehlo.multiply %[[V0]], %[[C0]]
// VJP-NEXT:    %[[V2:.*]] = stablehlo.divide %arg1, %[[V1]]
// VJP-NEXT:    return %[[V0]], %[[V2]]

func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {
  %0 = stablehlo.sqrt %x : tensor<3xf64>
  return %0 : tensor<3xf64>
}
