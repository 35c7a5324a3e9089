// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// The larger operand's tangent, or half of each at ties.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<5.000000e-01> : tensor<3xf64>
// JVP-NEXT:    %[[C1:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[C2:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[V0:.*]] = stablehlo.maximum %arg0, %arg1
// JVP-NEXT:    %[[V1:.*]] = stablehlo.compare EQ, %arg0, %arg1 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.select %[[V1]], %[[C0]], %[[C1]]
// JVP-NEXT:    %[[V3:.*]] = stablehlo.multiply %[[V2]], %arg3
// JVP-NEXT:    %[[V4:.*]] = stablehlo.compare LE, %arg0, %arg1 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// JVP-NEXT:    %[[V5:.*]] = stablehlo.select %[[V4]], %[[V3]], %[[C2]]
// JVP-NEXT:    %[[V6:.*]] = stablehlo.multiply %[[V2]], %arg2
// JVP-NEXT:    %[[V7:.*]] = stablehlo.compare GE, %arg0, %arg1 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// JVP-NEXT:    %[[V8:.*]] = stablehlo.select %[[V7]], %[[V6]], %[[C2]]
// JVP-NEXT:    %[[V9:.*]] = stablehlo.add %[[V8]], %[[V5]]
// JVP-NEXT:    return %[[V0]], %[[V9]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<5.000000e-01> : tensor<3xf64>
// VJP-NEXT:    %[[C1:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[C2:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.maximum %arg0, %arg1
// VJP-NEXT:    %[[V1:.*]] = stablehlo.compare GE, %arg0, %arg1 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.select %[[V1]], %arg2, %[[C2]]
// VJP-NEXT:    %[[V3:.*]] = stablehlo.compare EQ, %arg0, %arg1 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.select %[[V3]], %[[C0]], %[[C1]]
// VJP-NEXT:    %[[V5:.*]] = stablehlo.multiply %[[V4]], %[[V2]]
// VJP-NEXT:    %[[V6:.*]] = stablehlo.compare LE, %arg0, %arg1 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.select %[[V6]], %arg2, %[[C2]]
// VJP-NEXT:    %[[V8:.*]] = stablehlo.multiply %[[V4]], %[[V7]]
// VJP-NEXT:    return %[[V0]], %[[V5]], %[[V8]]

func.func @main(%x: tensor<3xf64>, %y: tensor<3xf64>) -> tensor<3xf64> {
  %0 = stablehlo.maximum %x, %y : tensor<3xf64>
  return %0 : tensor<3xf64>
}
