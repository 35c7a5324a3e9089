// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// Tangents are broadcast, then follow the rule of stablehlo.power; cotangents are summed.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[C1:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[V0:.*]] = chlo.broadcast_power %arg0, %arg1 : (tensor<f64>, tensor<3xf64>) -> tensor<3xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<f64>) -> tensor<3xf64>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.power %[[V1]], %arg1
// JVP-NEXT:    %[[V3:.*]] = stablehlo.compare GE, %arg1, %[[C0]] : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// JVP-NEXT:    %[[V4:.*]] = stablehlo.compare EQ, %[[V1]], %[[C0]] : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// JVP-NEXT:    %[[V5:.*]] = stablehlo.and %[[V4]], %[[V3]]
// JVP-NEXT:    %[[V6:.*]] = stablehlo.select %[[V5]], %[[C1]], %[[V1]]
// JVP-NEXT:    %[[V7:.*]] = stablehlo.log %[[V6]]
// JVP-NEXT:    %[[V8:.*]] = stablehlo.multiply %[[V7]], %[[V2]]
// JVP-NEXT:    %[[V9:.*]] = stablehlo.multiply %[[V8]], %arg3
// JVP-NEXT:    %[[V10:.*]] = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f64>) -> tensor<3xf64>
// JVP-NEXT:    %[[V11:.*]] = stablehlo.subtract %arg1, %[[C1]]
// JVP-NEXT:    %[[V12:.*]] = stablehlo.compare EQ, %arg1, %[[C0]] : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// JVP-NEXT:    %[[V13:.*]] = stablehlo.and %[[V4]], %[[V12]]
// JVP-NEXT:    %[[V14:.*]] = stablehlo.select %[[V13]], %[[C1]], %[[V1]]
// JVP-NEXT:    %[[V15:.*]] = stablehlo.power %[[V14]], %[[V11]]
// JVP-NEXT:    %[[V16:.*]] = stablehlo.multiply %arg1, %[[V15]]
// JVP-NEXT:    %[[V17:.*]] = stablehlo.multiply %[[V16]], %[[V10]]
// JVP-NEXT:    %[[V18:.*]] = stablehlo.add %[[V17]], %[[V9]]
// JVP-NEXT:    return %[[V0]], %[[V18]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[C1:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[C2:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[V0:.*]] = chlo.broadcast_power %arg0, %arg1 : (tensor<f64>, tensor<3xf64>) -> tensor<3xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.subtract %arg1, %[[C1]]
// VJP-NEXT:    %[[V2:.*]] = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<f64>) -> tensor<3xf64>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.compare EQ, %arg1, %[[C0]] : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.compare EQ, %[[V2]], %[[C0]] : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.and %[[V4]], %[[V3]]
// VJP-NEXT:    %[[V6:.*]] = stablehlo.select %[[V5]], %[[C1]], %[[V2]]
// VJP-NEXT:    %[[V7:.*]] = stablehlo.power %[[V6]], %[[V1]]
// VJP-NEXT:    %[[V8:.*]] = stablehlo.multiply %arg1, %[[V7]]
// VJP-NEXT:    %[[V9:.*]] = stablehlo.multiply %[[V8]], %arg2
// VJP-NEXT:    %[[V10:.*]] = stablehlo.reduce(%[[V9]] init: %[[C2]]) applies stablehlo.add across dimensions = [0] : (tensor<3xf64>, tensor<f64>) -> tensor<f64>
// VJP-NEXT:    %[[V11:.*]] = stablehlo.power %[[V2]], %arg1
// VJP-NEXT:    %[[V12:.*]] = stablehlo.compare GE, %arg1, %[[C0]] : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// VJP-NEXT:    %[[V13:.*]] = stablehlo.and %[[V4]], %[[V12]]
// VJP-NEXT:    %[[V14:.*]] = stablehlo.select %[[V13]], %[[C1]], %[[V2]]
// VJP-NEXT:    %[[V15:.*]] = stablehlo.log %[[V14]]
// VJP-NEXT:    %[[V16:.*]] = stablehlo.multiply %[[V15]], %[[V11]]
// VJP-NEXT:    %[[V17:.*]] = stablehlo.multiply %[[V16]], %arg2
// VJP-NEXT:    return %[[V0]], %[[V10]], %[[V17]]

func.func @main(%x: tensor<f64>, %y: tensor<3xf64>) -> tensor<3xf64> {
  %0 = chlo.broadcast_power %x, %y : (tensor<f64>, tensor<3xf64>) -> tensor<3xf64>
  return %0 : tensor<3xf64>
}
