// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// y = a + (b - a) u, and u = (y - a) / (b - a).

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[C:.*]] = stablehlo.constant dense<3> : tensor<1xi64>
// JVP-NEXT:    %[[V0:.*]] = stablehlo.rng %arg0, %arg1, %[[C]], distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<3xf32>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.subtract %arg3, %arg2 : tensor<f32>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.broadcast_in_dim %[[V1]], dims = [] : (tensor<f32>) -> tensor<3xf32>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.subtract %arg1, %arg0 : tensor<f32>
// JVP-NEXT:    %[[V4:.*]] = stablehlo.broadcast_in_dim %[[V3]], dims = [] : (tensor<f32>) -> tensor<3xf32>
// JVP-NEXT:    %[[V5:.*]] = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<f32>) -> tensor<3xf32>
// JVP-NEXT:    %[[V6:.*]] = stablehlo.subtract %[[V0]], %[[V5]] : tensor<3xf32>
// JVP-NEXT:    %[[V7:.*]] = stablehlo.divide %[[V6]], %[[V4]] : tensor<3xf32>
// JVP-NEXT:    %[[V8:.*]] = stablehlo.multiply %[[V7]], %[[V2]] : tensor<3xf32>
// JVP-NEXT:    %[[V9:.*]] = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f32>) -> tensor<3xf32>
// JVP-NEXT:    %[[V10:.*]] = stablehlo.add %[[V9]], %[[V8]] : tensor<3xf32>
// JVP-NEXT:    return %[[V0]], %[[V10]] : tensor<3xf32>, tensor<3xf32>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f32>
// VJP-NEXT:    %[[C:.*]] = stablehlo.constant dense<3> : tensor<1xi64>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.rng %arg0, %arg1, %[[C]], distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<3xf32>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.reduce(%arg2 init: %[[CST]]) applies stablehlo.add across dimensions = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.subtract %arg1, %arg0 : tensor<f32>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.broadcast_in_dim %[[V2]], dims = [] : (tensor<f32>) -> tensor<3xf32>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<f32>) -> tensor<3xf32>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.subtract %[[V0]], %[[V4]] : tensor<3xf32>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.divide %[[V5]], %[[V3]] : tensor<3xf32>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.multiply %[[V6]], %arg2 : tensor<3xf32>
// VJP-NEXT:    %[[V8:.*]] = stablehlo.reduce(%[[V7]] init: %[[CST]]) applies stablehlo.add across dimensions = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
// VJP-NEXT:    %[[V9:.*]] = stablehlo.negate %[[V8]] : tensor<f32>
// VJP-NEXT:    %[[V10:.*]] = stablehlo.add %[[V9]], %[[V1]] : tensor<f32>
// VJP-NEXT:    return %[[V0]], %[[V10]], %[[V8]] : tensor<3xf32>, tensor<f32>, tensor<f32>

func.func @main(%a: tensor<f32>, %b: tensor<f32>) -> tensor<3xf32> {
  %shape = stablehlo.constant dense<[3]> : tensor<1xi64>
  %0 = stablehlo.rng %a, %b, %shape, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
