// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// Tangents are broadcast, then follow the rule of stablehlo.minimum; cotangents are summed.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<5.000000e-01> : tensor<3xf64>
// JVP-NEXT:    %[[C1:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[C2:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[V0:.*]] = chlo.broadcast_minimum %arg0, %arg1 : (tensor<f64>, tensor<3xf64>) -> tensor<3xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<f64>) -> tensor<3xf64>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.compare EQ, %[[V1]], %arg1 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.select %[[V2]], %[[C0]], %[[C1]]
// JVP-NEXT:    %[[V4:.*]] = stablehlo.multiply %[[V3]], %arg3
// JVP-NEXT:    %[[V5:.*]] = stablehlo.compare GE, %[[V1]], %arg1 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// JVP-NEXT:    %[[V6:.*]] = stablehlo.select %[[V5]], %[[V4]], %[[C2]]
// JVP-NEXT:    %[[V7:.*]] = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f64>) -> tensor<3xf64>
// JVP-NEXT:    %[[V8:.*]] = stablehlo.multiply %[[V3]], %[[V7]]
// JVP-NEXT:    %[[V9:.*]] = stablehlo.compare LE, %[[V1]], %arg1 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// JVP-NEXT:    %[[V10:.*]] = stablehlo.select %[[V9]], %[[V8]], %[[C2]]
// JVP-NEXT:    %[[V11:.*]] = stablehlo.add %[[V10]], %[[V6]]
// JVP-NEXT:    return %[[V0]], %[[V11]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<5.000000e-01> : tensor<3xf64>
// VJP-NEXT:    %[[C1:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[C2:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[C3:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[V0:.*]] = chlo.broadcast_minimum %arg0, %arg1 : (tensor<f64>, tensor<3xf64>) -> tensor<3xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<f64>) -> tensor<3xf64>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.compare LE, %[[V1]], %arg1 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.select %[[V2]], %arg2, %[[C2]]
// VJP-NEXT:    %[[V4:.*]] = stablehlo.compare EQ, %[[V1]], %arg1 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.select %[[V4]], %[[C0]], %[[C1]]
// VJP-NEXT:    %[[V6:.*]] = stablehlo.multiply %[[V5]], %[[V3]]
// VJP-NEXT:    %[[V7:.*]] = stablehlo.reduce(%[[V6]] init: %[[C3]]) applies stablehlo.add across dimensions = [0] : (tensor<3xf64>, tensor<f64>) -> tensor<f64>
// VJP-NEXT:    %[[V8:.*]] = stablehlo.compare GE, %[[V1]], %arg1 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// VJP-NEXT:    %[[V9:.*]] = stablehlo.select %[[V8]], %arg2, %[[C2]]
// VJP-NEXT:    %[[V10:.*]] = stablehlo.multiply %[[V5]], %[[V9]]
// VJP-NEXT:    return %[[V0]], %[[V7]], %[[V10]]

func.func @main(%x: tensor<f64>, %y: tensor<3xf64>) -> tensor<3xf64> {
  %0 = chlo.broadcast_minimum %x, %y : (tensor<f64>, tensor<3xf64>) -> tensor<3xf64>
  return %0 : tensor<3xf64>
}
