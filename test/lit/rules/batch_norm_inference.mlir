// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// The op is expanded into others, each with its own rule.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<2.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<0.0010000000474974513> : tensor<3xf64>
// JVP-NEXT:    %[[V0:.*]] = "stablehlo.batch_norm_inference"(%arg0, %arg1, %arg2, %arg3, %arg4) <{epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}> : (tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>) -> tensor<4x3xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.broadcast_in_dim %arg7, dims = [1] : (tensor<3xf64>) -> tensor<4x3xf64>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.broadcast_in_dim %arg8, dims = [1] : (tensor<3xf64>) -> tensor<4x3xf64>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.subtract %arg5, %[[V2]] : tensor<4x3xf64>
// JVP-NEXT:    %[[V4:.*]] = stablehlo.add %arg4, %[[CST_0]] : tensor<3xf64>
// JVP-NEXT:    %[[V5:.*]] = stablehlo.sqrt %[[V4]] : tensor<3xf64>
// JVP-NEXT:    %[[V6:.*]] = stablehlo.divide %arg1, %[[V5]] : tensor<3xf64>
// JVP-NEXT:    %[[V7:.*]] = stablehlo.broadcast_in_dim %[[V6]], dims = [1] : (tensor<3xf64>) -> tensor<4x3xf64>
// JVP-NEXT:    %[[V8:.*]] = stablehlo.multiply %[[V7]], %[[V3]] : tensor<4x3xf64>
// JVP-NEXT:    %[[V9:.*]] = stablehlo.broadcast_in_dim %arg3, dims = [1] : (tensor<3xf64>) -> tensor<4x3xf64>
// JVP-NEXT:    %[[V10:.*]] = stablehlo.subtract %arg0, %[[V9]] : tensor<4x3xf64>
// JVP-NEXT:    %[[V11:.*]] = stablehlo.multiply %[[V5]], %[[CST]] : tensor<3xf64>
// JVP-NEXT:    %[[V12:.*]] = stablehlo.divide %arg9, %[[V11]] : tensor<3xf64>
// JVP-NEXT:    %[[V13:.*]] = stablehlo.multiply %[[V6]], %[[V12]] : tensor<3xf64>
// JVP-NEXT:    %[[V14:.*]] = stablehlo.subtract %arg6, %[[V13]] : tensor<3xf64>
// JVP-NEXT:    %[[V15:.*]] = stablehlo.divide %[[V14]], %[[V5]] : tensor<3xf64>
// JVP-NEXT:    %[[V16:.*]] = stablehlo.broadcast_in_dim %[[V15]], dims = [1] : (tensor<3xf64>) -> tensor<4x3xf64>
// JVP-NEXT:    %[[V17:.*]] = stablehlo.multiply %[[V16]], %[[V10]] : tensor<4x3xf64>
// JVP-NEXT:    %[[V18:.*]] = stablehlo.add %[[V17]], %[[V8]] : tensor<4x3xf64>
// JVP-NEXT:    %[[V19:.*]] = stablehlo.add %[[V18]], %[[V1]] : tensor<4x3xf64>
// JVP-NEXT:    return %[[V0]], %[[V19]] : tensor<4x3xf64>, tensor<4x3xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<2.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<0.0010000000474974513> : tensor<3xf64>
// VJP-NEXT:    %[[V0:.*]] = "stablehlo.batch_norm_inference"(%arg0, %arg1, %arg2, %arg3, %arg4) <{epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}> : (tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>) -> tensor<4x3xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.add %arg4, %[[CST_1]] : tensor<3xf64>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.sqrt %[[V1]] : tensor<3xf64>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.divide %arg1, %[[V2]] : tensor<3xf64>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.broadcast_in_dim %[[V3]], dims = [1] : (tensor<3xf64>) -> tensor<4x3xf64>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.multiply %[[V4]], %arg5 : tensor<4x3xf64>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.broadcast_in_dim %arg3, dims = [1] : (tensor<3xf64>) -> tensor<4x3xf64>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.subtract %arg0, %[[V6]] : tensor<4x3xf64>
// VJP-NEXT:    %[[V8:.*]] = stablehlo.multiply %[[V7]], %arg5 : tensor<4x3xf64>
// VJP-NEXT:    %[[V9:.*]] = stablehlo.reduce(%[[V8]] init: %[[CST_0]]) applies stablehlo.add across dimensions = [0] : (tensor<4x3xf64>, tensor<f64>) -> tensor<3xf64>
// VJP-NEXT:    %[[V10:.*]] = stablehlo.divide %[[V9]], %[[V2]] : tensor<3xf64>
// VJP-NEXT:    %[[V11:.*]] = stablehlo.reduce(%arg5 init: %[[CST_0]]) applies stablehlo.add across dimensions = [0] : (tensor<4x3xf64>, tensor<f64>) -> tensor<3xf64>
// VJP-NEXT:    %[[V12:.*]] = stablehlo.negate %[[V5]] : tensor<4x3xf64>
// VJP-NEXT:    %[[V13:.*]] = stablehlo.reduce(%[[V12]] init: %[[CST_0]]) applies stablehlo.add across dimensions = [0] : (tensor<4x3xf64>, tensor<f64>) -> tensor<3xf64>
// VJP-NEXT:    %[[V14:.*]] = stablehlo.multiply %[[V2]], %[[CST]] : tensor<3xf64>
// VJP-NEXT:    %[[V15:.*]] = stablehlo.negate %[[V10]] : tensor<3xf64>
// VJP-NEXT:    %[[V16:.*]] = stablehlo.multiply %[[V3]], %[[V15]] : tensor<3xf64>
// VJP-NEXT:    %[[V17:.*]] = stablehlo.divide %[[V16]], %[[V14]] : tensor<3xf64>
// VJP-NEXT:    return %[[V0]], %[[V5]], %[[V10]], %[[V11]], %[[V13]], %[[V17]] : tensor<4x3xf64>, tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>

func.func @main(%x: tensor<4x3xf64>, %y: tensor<3xf64>, %z: tensor<3xf64>, %v: tensor<3xf64>, %w: tensor<3xf64>) -> tensor<4x3xf64> {
  %0 = "stablehlo.batch_norm_inference"(%x, %y, %z, %v, %w) {epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}
    : (tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>) -> tensor<4x3xf64>
  return %0 : tensor<4x3xf64>
}
