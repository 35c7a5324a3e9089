// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// The tangent of minimum(maximum(low, x), high), with half of each at ties. A scalar
// bound is broadcast, and its cotangents are summed.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<5.000000e-01> : tensor<3xf64>
// JVP-NEXT:    %[[C1:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[C2:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[V0:.*]] = stablehlo.clamp %arg0, %arg1, %arg2 : (tensor<f64>, tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<f64>) -> tensor<3xf64>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.maximum %[[V1]], %arg1
// JVP-NEXT:    %[[V3:.*]] = stablehlo.compare EQ, %[[V2]], %arg2 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// JVP-NEXT:    %[[V4:.*]] = stablehlo.select %[[V3]], %[[C0]], %[[C1]]
// JVP-NEXT:    %[[V5:.*]] = stablehlo.multiply %[[V4]], %arg5
// JVP-NEXT:    %[[V6:.*]] = stablehlo.compare GE, %[[V2]], %arg2 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// JVP-NEXT:    %[[V7:.*]] = stablehlo.select %[[V6]], %[[V5]], %[[C2]]
// JVP-NEXT:    %[[V8:.*]] = stablehlo.compare EQ, %[[V1]], %arg1 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// JVP-NEXT:    %[[V9:.*]] = stablehlo.select %[[V8]], %[[C0]], %[[C1]]
// JVP-NEXT:    %[[V10:.*]] = stablehlo.multiply %[[V9]], %arg4
// JVP-NEXT:    %[[V11:.*]] = stablehlo.compare LE, %[[V1]], %arg1 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// JVP-NEXT:    %[[V12:.*]] = stablehlo.select %[[V11]], %[[V10]], %[[C2]]
// JVP-NEXT:    %[[V13:.*]] = stablehlo.broadcast_in_dim %arg3, dims = [] : (tensor<f64>) -> tensor<3xf64>
// JVP-NEXT:    %[[V14:.*]] = stablehlo.multiply %[[V9]], %[[V13]]
// JVP-NEXT:    %[[V15:.*]] = stablehlo.compare GE, %[[V1]], %arg1 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// JVP-NEXT:    %[[V16:.*]] = stablehlo.select %[[V15]], %[[V14]], %[[C2]]
// JVP-NEXT:    %[[V17:.*]] = stablehlo.add %[[V16]], %[[V12]]
// JVP-NEXT:    %[[V18:.*]] = stablehlo.multiply %[[V4]], %[[V17]]
// JVP-NEXT:    %[[V19:.*]] = stablehlo.compare LE, %[[V2]], %arg2 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// JVP-NEXT:    %[[V20:.*]] = stablehlo.select %[[V19]], %[[V18]], %[[C2]]
// JVP-NEXT:    %[[V21:.*]] = stablehlo.add %[[V20]], %[[V7]]
// JVP-NEXT:    return %[[V0]], %[[V21]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<5.000000e-01> : tensor<3xf64>
// VJP-NEXT:    %[[C1:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[C2:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[C3:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.clamp %arg0, %arg1, %arg2 : (tensor<f64>, tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<f64>) -> tensor<3xf64>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.maximum %[[V1]], %arg1
// VJP-NEXT:    %[[V3:.*]] = stablehlo.compare LE, %[[V2]], %arg2 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.select %[[V3]], %arg3, %[[C2]]
// VJP-NEXT:    %[[V5:.*]] = stablehlo.compare EQ, %[[V2]], %arg2 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.select %[[V5]], %[[C0]], %[[C1]]
// VJP-NEXT:    %[[V7:.*]] = stablehlo.multiply %[[V6]], %[[V4]]
// VJP-NEXT:    %[[V8:.*]] = stablehlo.compare GE, %[[V1]], %arg1 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// VJP-NEXT:    %[[V9:.*]] = stablehlo.select %[[V8]], %[[V7]], %[[C2]]
// VJP-NEXT:    %[[V10:.*]] = stablehlo.compare EQ, %[[V1]], %arg1 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// VJP-NEXT:    %[[V11:.*]] = stablehlo.select %[[V10]], %[[C0]], %[[C1]]
// VJP-NEXT:    %[[V12:.*]] = stablehlo.multiply %[[V11]], %[[V9]]
// VJP-NEXT:    %[[V13:.*]] = stablehlo.reduce(%[[V12]] init: %[[C3]]) applies stablehlo.add across dimensions = [0] : (tensor<3xf64>, tensor<f64>) -> tensor<f64>
// VJP-NEXT:    %[[V14:.*]] = stablehlo.compare LE, %[[V1]], %arg1 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// VJP-NEXT:    %[[V15:.*]] = stablehlo.select %[[V14]], %[[V7]], %[[C2]]
// VJP-NEXT:    %[[V16:.*]] = stablehlo.multiply %[[V11]], %[[V15]]
// VJP-NEXT:    %[[V17:.*]] = stablehlo.compare GE, %[[V2]], %arg2 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// VJP-NEXT:    %[[V18:.*]] = stablehlo.select %[[V17]], %arg3, %[[C2]]
// VJP-NEXT:    %[[V19:.*]] = stablehlo.multiply %[[V6]], %[[V18]]
// VJP-NEXT:    return %[[V0]], %[[V13]], %[[V16]], %[[V19]]

func.func @main(%low: tensor<f64>, %x: tensor<3xf64>, %high: tensor<3xf64>) -> tensor<3xf64> {
  %0 = stablehlo.clamp %low, %x, %high : (tensor<f64>, tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
  return %0 : tensor<3xf64>
}
