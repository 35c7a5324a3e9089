// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --input 1.5,2,3 --engine reference

// y' = 1 / (sqrt(x - 1) sqrt(x + 1)), also for complex x.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<-1.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[C1:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[V0:.*]] = chlo.acosh %arg0
// JVP-NEXT:    %[[V1:.*]] = stablehlo.add %arg0, %[[C1]]
// JVP-NEXT:    %[[V2:.*]] = stablehlo.rsqrt %[[V1]]
// JVP-NEXT:    %[[V3:.*]] = stablehlo.add %arg0, %[[C0]]
// JVP-NEXT:    %[[V4:.*]] = stablehlo.rsqrt %[[V3]]
// JVP-NEXT:    %[[V5:.*]] = stablehlo.multiply %[[V4]], %[[V2]]
// JVP-NEXT:    %[[V6:.*]] = stablehlo.multiply %[[V5]], %arg1
// JVP-NEXT:    return %[[V0]], %[[V6]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<-1.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[C1:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[V0:.*]] = chlo.acosh %arg0
// VJP-NEXT:    %[[V1:.*]] = stablehlo.add %arg0, %[[C1]]
// VJP-NEXT:    %[[V2:.*]] = stablehlo.rsqrt %[[V1]]
// VJP-NEXT:    %[[V3:.*]] = stablehlo.add %arg0, %[[C0]]
// VJP-NEXT:    %[[V4:.*]] = stablehlo.rsqrt %[[V3]]
// VJP-NEXT:    %[[V5:.*]] = stablehlo.multiply %[[V4]], %[[V2]]
// VJP-NEXT:    %[[V6:.*]] = stablehlo.multiply %[[V5]], %arg1
// VJP-NEXT:    return %[[V0]], %[[V6]]

func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {
  %0 = chlo.acosh %x : tensor<3xf64> -> tensor<3xf64>
  return %0 : tensor<3xf64>
}
