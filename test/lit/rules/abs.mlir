// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// y' = sign(x), and 1 at 0.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[C1:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[C2:.*]] = stablehlo.constant dense<-1.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[V0:.*]] = stablehlo.abs %arg0
// JVP-NEXT:    %[[V1:.*]] = stablehlo.compare GE, %arg0, %[[C0]] : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.select %[[V1]], %[[C1]], %[[C2]]
// JVP-NEXT:    %[[V3:.*]] = stablehlo.multiply %[[V2]], %arg1
// JVP-NEXT:    return %[[V0]], %[[V3]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[C1:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[C2:.*]] = stablehlo.constant dense<-1.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.abs %arg0
// VJP-NEXT:    %[[V1:.*]] = stablehlo.compare GE, %arg0, %[[C0]] : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.select %[[V1]], %[[C1]], %[[C2]]
// VJP-NEXT:    %[[V3:.*]] = stablehlo.multiply %[[V2]], %arg1
// VJP-NEXT:    return %[[V0]], %[[V3]]

func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {
  %0 = stablehlo.abs %x : tensor<3xf64>
  return %0 : tensor<3xf64>
}
