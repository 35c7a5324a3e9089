// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// y' = sqrt(pi) / 2 exp(y^2).

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<0.88622692545275794> : tensor<3xf64>
// JVP-NEXT:    %[[V0:.*]] = chlo.erf_inv %arg0
// JVP-NEXT:    %[[V1:.*]] = stablehlo.multiply %[[V0]], %[[V0]]
// JVP-NEXT:    %[[V2:.*]] = stablehlo.exponential %[[V1]]
// JVP-NEXT:    %[[V3:.*]] = stablehlo.multiply %[[V2]], %[[C0]]
// JVP-NEXT:    %[[V4:.*]] = stablehlo.multiply %[[V3]], %arg1
// JVP-NEXT:    return %[[V0]], %[[V4]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<0.88622692545275794> : tensor<3xf64>
// VJP-NEXT:    %[[V0:.*]] = chlo.erf_inv %arg0
// VJP-NEXT:    %[[V1:.*]] = stablehlo.multiply %[[V0]], %[[V0]]
// VJP-NEXT:    %[[V2:.*]] = stablehlo.exponential %[[V1]]
// VJP-NEXT:    %[[V3:.*]] = stablehlo.multiply %[[V2]], %[[C0]]
// VJP-NEXT:    %[[V4:.*]] = stablehlo.multiply %[[V3]], %arg1
// VJP-NEXT:    return %[[V0]], %[[V4]]

func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {
  %0 = chlo.erf_inv %x : tensor<3xf64> -> tensor<3xf64>
  return %0 : tensor<3xf64>
}
