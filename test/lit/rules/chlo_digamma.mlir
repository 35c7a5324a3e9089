// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// y' = polygamma(1, x), or 1 / x + 1 / (2 x^2) for large x.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0x41A0000000000000> : tensor<3xf64>
// JVP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<5.000000e-01> : tensor<3xf64>
// JVP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[V0:.*]] = chlo.digamma %arg0
// JVP-NEXT:    %[[V1:.*]] = chlo.polygamma %[[CST_1]], %arg0
// JVP-NEXT:    %[[V2:.*]] = stablehlo.divide %[[CST_0]], %arg0
// JVP-NEXT:    %[[V3:.*]] = stablehlo.add %[[V2]], %[[CST_1]]
// JVP-NEXT:    %[[V4:.*]] = stablehlo.divide %[[V3]], %arg0
// JVP-NEXT:    %[[V5:.*]] = stablehlo.compare GT, %arg0, %[[CST]]
// JVP-NEXT:    %[[V6:.*]] = stablehlo.select %[[V5]], %[[V4]], %[[V1]]
// JVP-NEXT:    %[[V7:.*]] = stablehlo.multiply %[[V6]], %arg1
// JVP-NEXT:    return %[[V0]], %[[V7]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0x41A0000000000000> : tensor<3xf64>
// VJP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<5.000000e-01> : tensor<3xf64>
// VJP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[V0:.*]] = chlo.digamma %arg0
// VJP-NEXT:    %[[V1:.*]] = chlo.polygamma %[[CST_1]], %arg0
// VJP-NEXT:    %[[V2:.*]] = stablehlo.divide %[[CST_0]], %arg0
// VJP-NEXT:    %[[V3:.*]] = stablehlo.add %[[V2]], %[[CST_1]]
// VJP-NEXT:    %[[V4:.*]] = stablehlo.divide %[[V3]], %arg0
// VJP-NEXT:    %[[V5:.*]] = stablehlo.compare GT, %arg0, %[[CST]]
// VJP-NEXT:    %[[V6:.*]] = stablehlo.select %[[V5]], %[[V4]], %[[V1]]
// VJP-NEXT:    %[[V7:.*]] = stablehlo.multiply %[[V6]], %arg1
// VJP-NEXT:    return %[[V0]], %[[V7]]

func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {
  %0 = chlo.digamma %x : tensor<3xf64> -> tensor<3xf64>
  return %0 : tensor<3xf64>
}
