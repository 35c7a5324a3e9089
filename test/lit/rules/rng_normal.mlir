// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// y = a + s z, and z = (y - a) / s.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[C:.*]] = stablehlo.constant dense<3> : tensor<1xi64>
// JVP-NEXT:    %[[V0:.*]] = stablehlo.rng %arg0, %arg1, %[[C]], distribution = NORMAL : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<3xf32>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.broadcast_in_dim %arg3, dims = [] : (tensor<f32>) -> tensor<3xf32>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<3xf32>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<f32>) -> tensor<3xf32>
// JVP-NEXT:    %[[V4:.*]] = stablehlo.subtract %[[V0]], %[[V3]] : tensor<3xf32>
// JVP-NEXT:    %[[V5:.*]] = stablehlo.divide %[[V4]], %[[V2]] : tensor<3xf32>
// JVP-NEXT:    %[[V6:.*]] = stablehlo.multiply %[[V5]], %[[V1]] : tensor<3xf32>
// JVP-NEXT:    %[[V7:.*]] = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f32>) -> tensor<3xf32>
// JVP-NEXT:    %[[V8:.*]] = stablehlo.add %[[V7]], %[[V6]] : tensor<3xf32>
// JVP-NEXT:    return %[[V0]], %[[V8]] : tensor<3xf32>, tensor<3xf32>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f32>
// VJP-NEXT:    %[[C:.*]] = stablehlo.constant dense<3> : tensor<1xi64>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.rng %arg0, %arg1, %[[C]], distribution = NORMAL : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<3xf32>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.reduce(%arg2 init: %[[CST]]) applies stablehlo.add across dimensions = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<3xf32>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<f32>) -> tensor<3xf32>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.subtract %[[V0]], %[[V3]] : tensor<3xf32>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.divide %[[V4]], %[[V2]] : tensor<3xf32>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.multiply %[[V5]], %arg2 : tensor<3xf32>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.reduce(%[[V6]] init: %[[CST]]) applies stablehlo.add across dimensions = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
// VJP-NEXT:    return %[[V0]], %[[V1]], %[[V7]] : tensor<3xf32>, tensor<f32>, tensor<f32>

func.func @main(%a: tensor<f32>, %s: tensor<f32>) -> tensor<3xf32> {
  %shape = stablehlo.constant dense<[3]> : tensor<1xi64>
  %0 = stablehlo.rng %a, %s, %shape, distribution = NORMAL : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
