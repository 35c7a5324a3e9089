// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// The tangent of whichever is chosen; a scalar bound is broadcast, and its cotangents are added up.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[V0:.*]] = stablehlo.clamp %arg0, %arg1, %arg2 : (tensor<f64>, tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<f64>) -> tensor<3xf64>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.maximum %[[V1]], %arg1
// JVP-NEXT:    %[[V3:.*]] = stablehlo.compare LT, %arg2, %[[V2]] : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// JVP-NEXT:    %[[V4:.*]] = stablehlo.select %[[V3]], %arg5, %[[C0]]
// JVP-NEXT:    %[[V5:.*]] = stablehlo.compare LT, %arg1, %arg2 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// JVP-NEXT:    %[[V6:.*]] = stablehlo.compare GT, %arg1, %[[V1]] : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// JVP-NEXT:    %[[V7:.*]] = stablehlo.and %[[V6]], %[[V5]]
// JVP-NEXT:    %[[V8:.*]] = stablehlo.select %[[V7]], %arg4, %[[C0]]
// JVP-NEXT:    %[[V9:.*]] = stablehlo.broadcast_in_dim %arg3, dims = [] : (tensor<f64>) -> tensor<3xf64>
// JVP-NEXT:    %[[V10:.*]] = stablehlo.compare LT, %[[V1]], %arg2 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// JVP-NEXT:    %[[V11:.*]] = stablehlo.compare GT, %[[V1]], %arg1 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// JVP-NEXT:    %[[V12:.*]] = stablehlo.and %[[V11]], %[[V10]]
// JVP-NEXT:    %[[V13:.*]] = stablehlo.select %[[V12]], %[[V9]], %[[C0]]
// JVP-NEXT:    %[[V14:.*]] = stablehlo.add %[[V13]], %[[V8]]
// JVP-NEXT:    %[[V15:.*]] = stablehlo.add %[[V14]], %[[V4]]
// JVP-NEXT:    return %[[V0]], %[[V15]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[C1:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.clamp %arg0, %arg1, %arg2 : (tensor<f64>, tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<f64>) -> tensor<3xf64>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.compare LT, %[[V1]], %arg2 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.compare GT, %[[V1]], %arg1 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.and %[[V3]], %[[V2]]
// VJP-NEXT:    %[[V5:.*]] = stablehlo.select %[[V4]], %arg3, %[[C0]]
// VJP-NEXT:    %[[V6:.*]] = stablehlo.reduce(%[[V5]] init: %[[C1]]) applies stablehlo.add across dimensions = [0] : (tensor<3xf64>, tensor<f64>) -> tensor<f64>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.compare LT, %arg1, %arg2 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// VJP-NEXT:    %[[V8:.*]] = stablehlo.compare GT, %arg1, %[[V1]] : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// VJP-NEXT:    %[[V9:.*]] = stablehlo.and %[[V8]], %[[V7]]
// VJP-NEXT:    %[[V10:.*]] = stablehlo.select %[[V9]], %arg3, %[[C0]]
// VJP-NEXT:    %[[V11:.*]] = stablehlo.maximum %[[V1]], %arg1
// VJP-NEXT:    %[[V12:.*]] = stablehlo.compare LT, %arg2, %[[V11]] : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// VJP-NEXT:    %[[V13:.*]] = stablehlo.select %[[V12]], %arg3, %[[C0]]
// VJP-NEXT:    return %[[V0]], %[[V6]], %[[V10]], %[[V13]]

func.func @main(%low: tensor<f64>, %x: tensor<3xf64>, %high: tensor<3xf64>) -> tensor<3xf64> {
  %0 = stablehlo.clamp %low, %x, %high : (tensor<f64>, tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
  return %0 : tensor<3xf64>
}
