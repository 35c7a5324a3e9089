// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --input 0.5,1,2 --engine reference

// y' = -y / 2x.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<-5.000000e-01> : tensor<3xf64>
// JVP-NEXT:    %[[V0:.*]] = stablehlo.rsqrt %arg0
// JVP-NEXT:    %[[V1:.*]] = stablehlo.multiply %[[V0]], %[[CST]]
// JVP-NEXT:    %[[V2:.*]] = stablehlo.divide %[[V1]], %arg0
// JVP-NEXT:    %[[V3:.*]] = stablehlo.multiply %[[V2]], %arg1
// JVP-NEXT:    return %[[V0]], %[[V3]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<-5.000000e-01> : tensor<3xf64>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.rsqrt %arg0
// VJP-NEXT:    %[[V1:.*]] = stablehlo.multiply %[[V0]], %[[CST]]
// VJP-NEXT:    %[[V2:.*]] = stablehlo.divide %[[V1]], %arg0
// VJP-NEXT:    %[[V3:.*]] = stablehlo.multiply %[[V2]], %arg1
// VJP-NEXT:    return %[[V0]], %[[V3]]

func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {
  %0 = stablehlo.rsqrt %x : tensor<3xf64>
  return %0 : tensor<3xf64>
}
