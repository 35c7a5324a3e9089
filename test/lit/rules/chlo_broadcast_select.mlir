// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// Tangents are broadcast, then follow the rule of stablehlo.select; cotangents are summed.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = chlo.broadcast_select %arg0, %arg1, %arg2 : (tensor<i1>, tensor<3xf64>, tensor<f64>) -> tensor<3xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.broadcast_in_dim %arg4, dims = [] : (tensor<f64>) -> tensor<3xf64>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<i1>) -> tensor<3xi1>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.select %[[V2]], %arg3, %[[V1]]
// JVP-NEXT:    return %[[V0]], %[[V3]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[C1:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[V0:.*]] = chlo.broadcast_select %arg0, %arg1, %arg2 : (tensor<i1>, tensor<3xf64>, tensor<f64>) -> tensor<3xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<i1>) -> tensor<3xi1>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.select %[[V1]], %arg3, %[[C1]]
// VJP-NEXT:    %[[V3:.*]] = stablehlo.select %[[V1]], %[[C1]], %arg3
// VJP-NEXT:    %[[V4:.*]] = stablehlo.reduce(%[[V3]] init: %[[C0]]) applies stablehlo.add across dimensions = [0] : (tensor<3xf64>, tensor<f64>) -> tensor<f64>
// VJP-NEXT:    return %[[V0]], %[[V2]], %[[V4]]

func.func @main(%p: tensor<i1>, %x: tensor<3xf64>, %y: tensor<f64>) -> tensor<3xf64> {
  %0 = chlo.broadcast_select %p, %x, %y : (tensor<i1>, tensor<3xf64>, tensor<f64>) -> tensor<3xf64>
  return %0 : tensor<3xf64>
}
