// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// y' = 1 / sqrt(x^2 + 1).

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0x41A0000000000000> : tensor<3xf64>
// JVP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[V0:.*]] = chlo.asinh %arg0
// JVP-NEXT:    %[[V1:.*]] = stablehlo.multiply %arg0, %arg0
// JVP-NEXT:    %[[V2:.*]] = stablehlo.add %[[V1]], %[[CST_0]]
// JVP-NEXT:    %[[V3:.*]] = stablehlo.rsqrt %[[V2]]
// JVP-NEXT:    %[[V4:.*]] = stablehlo.abs %arg0
// JVP-NEXT:    %[[V5:.*]] = stablehlo.divide %[[CST_0]], %[[V4]]
// JVP-NEXT:    %[[V6:.*]] = stablehlo.compare GT, %[[V4]], %[[CST]]
// JVP-NEXT:    %[[V7:.*]] = stablehlo.select %[[V6]], %[[V5]], %[[V3]]
// JVP-NEXT:    %[[V8:.*]] = stablehlo.multiply %[[V7]], %arg1
// JVP-NEXT:    return %[[V0]], %[[V8]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0x41A0000000000000> : tensor<3xf64>
// VJP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[V0:.*]] = chlo.asinh %arg0
// VJP-NEXT:    %[[V1:.*]] = stablehlo.multiply %arg0, %arg0
// VJP-NEXT:    %[[V2:.*]] = stablehlo.add %[[V1]], %[[CST_0]]
// VJP-NEXT:    %[[V3:.*]] = stablehlo.rsqrt %[[V2]]
// VJP-NEXT:    %[[V4:.*]] = stablehlo.abs %arg0
// VJP-NEXT:    %[[V5:.*]] = stablehlo.divide %[[CST_0]], %[[V4]]
// VJP-NEXT:    %[[V6:.*]] = stablehlo.compare GT, %[[V4]], %[[CST]]
// VJP-NEXT:    %[[V7:.*]] = stablehlo.select %[[V6]], %[[V5]], %[[V3]]
// VJP-NEXT:    %[[V8:.*]] = stablehlo.multiply %[[V7]], %arg1
// VJP-NEXT:    return %[[V0]], %[[V8]]

func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {
  %0 = chlo.asinh %x : tensor<3xf64> -> tensor<3xf64>
  return %0 : tensor<3xf64>
}
