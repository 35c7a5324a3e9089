// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// dy = dx / (1 + x).

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[V0:.*]] = stablehlo.log_plus_one %arg0
// JVP-NEXT:    %[[V1:.*]] = stablehlo.add %arg0, %[[C0]]
// JVP-NEXT:    %[[V2:.*]] = stablehlo.divide %arg1, %[[V1]]
// JVP-NEXT:    return %[[V0]], %[[V2]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.log_plus_one %arg0
// VJP-NEXT:    %[[V1:.*]] = stablehlo.add %arg0, %[[C0]]
// VJP-NEXT:    %[[V2:.*]] = stablehlo.divide %arg1, %[[V1]]
// VJP-NEXT:    return %[[V0]], %[[V2]]

func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {
  %0 = stablehlo.log_plus_one %x : tensor<3xf64>
  return %0 : tensor<3xf64>
}
