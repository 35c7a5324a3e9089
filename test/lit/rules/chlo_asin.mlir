// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// y' = 1 / sqrt(1 - x^2); for |x| >= 1/2, 1 - x^2 is computed as (1 - x) (1 + x).

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<5.000000e-01> : tensor<3xf64>
// JVP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[V0:.*]] = chlo.asin %arg0
// JVP-NEXT:    %[[V1:.*]] = stablehlo.add %arg0, %[[CST_0]]
// JVP-NEXT:    %[[V2:.*]] = stablehlo.subtract %[[CST_0]], %arg0
// JVP-NEXT:    %[[V3:.*]] = stablehlo.multiply %[[V2]], %[[V1]]
// JVP-NEXT:    %[[V4:.*]] = stablehlo.multiply %arg0, %arg0
// JVP-NEXT:    %[[V5:.*]] = stablehlo.subtract %[[CST_0]], %[[V4]]
// JVP-NEXT:    %[[V6:.*]] = stablehlo.abs %arg0
// JVP-NEXT:    %[[V7:.*]] = stablehlo.compare LT, %[[V6]], %[[CST]]
// JVP-NEXT:    %[[V8:.*]] = stablehlo.select %[[V7]], %[[V5]], %[[V3]]
// JVP-NEXT:    %[[V9:.*]] = stablehlo.rsqrt %[[V8]]
// JVP-NEXT:    %[[V10:.*]] = stablehlo.multiply %[[V9]], %arg1
// JVP-NEXT:    return %[[V0]], %[[V10]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<5.000000e-01> : tensor<3xf64>
// VJP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[V0:.*]] = chlo.asin %arg0
// VJP-NEXT:    %[[V1:.*]] = stablehlo.add %arg0, %[[CST_0]]
// VJP-NEXT:    %[[V2:.*]] = stablehlo.subtract %[[CST_0]], %arg0
// VJP-NEXT:    %[[V3:.*]] = stablehlo.multiply %[[V2]], %[[V1]]
// VJP-NEXT:    %[[V4:.*]] = stablehlo.multiply %arg0, %arg0
// VJP-NEXT:    %[[V5:.*]] = stablehlo.subtract %[[CST_0]], %[[V4]]
// VJP-NEXT:    %[[V6:.*]] = stablehlo.abs %arg0
// VJP-NEXT:    %[[V7:.*]] = stablehlo.compare LT, %[[V6]], %[[CST]]
// VJP-NEXT:    %[[V8:.*]] = stablehlo.select %[[V7]], %[[V5]], %[[V3]]
// VJP-NEXT:    %[[V9:.*]] = stablehlo.rsqrt %[[V8]]
// VJP-NEXT:    %[[V10:.*]] = stablehlo.multiply %[[V9]], %arg1
// VJP-NEXT:    return %[[V0]], %[[V10]]

func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {
  %0 = chlo.asin %x : tensor<3xf64> -> tensor<3xf64>
  return %0 : tensor<3xf64>
}
