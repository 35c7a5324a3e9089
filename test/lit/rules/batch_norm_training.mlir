// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// The tangents of mean and variance come first, from the op's mean; then the rule of inference.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<5.000000e-01> : tensor<3xf64>
// JVP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<2.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<0.0010000000474974513> : tensor<3xf64>
// JVP-NEXT:    %[[CST_2:.*]] = stablehlo.constant dense<2.500000e-01> : tensor<3xf64>
// JVP-NEXT:    %[[CST_3:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// JVP-NEXT:    %[[OUTPUT:.*]], %[[BATCH_MEAN:.*]], %[[BATCH_VAR:.*]] = "stablehlo.batch_norm_training"(%arg0, %arg1, %arg2) <{epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}> : (tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>) -> (tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>)
// JVP-NEXT:    %[[V0:.*]] = stablehlo.broadcast_in_dim %arg5, dims = [1] : (tensor<3xf64>) -> tensor<4x3xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.reduce(%arg3 init: %[[CST_3]]) applies stablehlo.add across dimensions = [0] : (tensor<4x3xf64>, tensor<f64>) -> tensor<3xf64>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.multiply %[[V1]], %[[CST_2]] : tensor<3xf64>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.broadcast_in_dim %[[V2]], dims = [1] : (tensor<3xf64>) -> tensor<4x3xf64>
// JVP-NEXT:    %[[V4:.*]] = stablehlo.subtract %arg3, %[[V3]] : tensor<4x3xf64>
// JVP-NEXT:    %[[V5:.*]] = stablehlo.add %[[BATCH_VAR]], %[[CST_1]] : tensor<3xf64>
// JVP-NEXT:    %[[V6:.*]] = stablehlo.sqrt %[[V5]] : tensor<3xf64>
// JVP-NEXT:    %[[V7:.*]] = stablehlo.divide %arg1, %[[V6]] : tensor<3xf64>
// JVP-NEXT:    %[[V8:.*]] = stablehlo.broadcast_in_dim %[[V7]], dims = [1] : (tensor<3xf64>) -> tensor<4x3xf64>
// JVP-NEXT:    %[[V9:.*]] = stablehlo.multiply %[[V8]], %[[V4]] : tensor<4x3xf64>
// JVP-NEXT:    %[[V10:.*]] = stablehlo.broadcast_in_dim %[[BATCH_MEAN]], dims = [1] : (tensor<3xf64>) -> tensor<4x3xf64>
// JVP-NEXT:    %[[V11:.*]] = stablehlo.subtract %arg0, %[[V10]] : tensor<4x3xf64>
// JVP-NEXT:    %[[V12:.*]] = stablehlo.multiply %[[V6]], %[[CST_0]] : tensor<3xf64>
// JVP-NEXT:    %[[V13:.*]] = stablehlo.multiply %[[V11]], %arg3 : tensor<4x3xf64>
// JVP-NEXT:    %[[V14:.*]] = stablehlo.reduce(%[[V13]] init: %[[CST_3]]) applies stablehlo.add across dimensions = [0] : (tensor<4x3xf64>, tensor<f64>) -> tensor<3xf64>
// JVP-NEXT:    %[[V15:.*]] = stablehlo.multiply %[[V14]], %[[CST]] : tensor<3xf64>
// JVP-NEXT:    %[[V16:.*]] = stablehlo.divide %[[V15]], %[[V12]] : tensor<3xf64>
// JVP-NEXT:    %[[V17:.*]] = stablehlo.multiply %[[V7]], %[[V16]] : tensor<3xf64>
// JVP-NEXT:    %[[V18:.*]] = stablehlo.subtract %arg4, %[[V17]] : tensor<3xf64>
// JVP-NEXT:    %[[V19:.*]] = stablehlo.divide %[[V18]], %[[V6]] : tensor<3xf64>
// JVP-NEXT:    %[[V20:.*]] = stablehlo.broadcast_in_dim %[[V19]], dims = [1] : (tensor<3xf64>) -> tensor<4x3xf64>
// JVP-NEXT:    %[[V21:.*]] = stablehlo.multiply %[[V20]], %[[V11]] : tensor<4x3xf64>
// JVP-NEXT:    %[[V22:.*]] = stablehlo.add %[[V21]], %[[V9]] : tensor<4x3xf64>
// JVP-NEXT:    %[[V23:.*]] = stablehlo.add %[[V22]], %[[V0]] : tensor<4x3xf64>
// JVP-NEXT:    return %[[OUTPUT]], %[[BATCH_MEAN]], %[[BATCH_VAR]], %[[V23]], %[[V2]], %[[V15]] : tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<5.000000e-01> : tensor<3xf64>
// VJP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<2.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<2.500000e-01> : tensor<3xf64>
// VJP-NEXT:    %[[CST_2:.*]] = stablehlo.constant dense<0.0010000000474974513> : tensor<3xf64>
// VJP-NEXT:    %[[CST_3:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[OUTPUT:.*]], %[[BATCH_MEAN:.*]], %[[BATCH_VAR:.*]] = "stablehlo.batch_norm_training"(%arg0, %arg1, %arg2) <{epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}> : (tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>) -> (tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>)
// VJP-NEXT:    %[[V0:.*]] = stablehlo.add %[[BATCH_VAR]], %[[CST_2]] : tensor<3xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.sqrt %[[V0]] : tensor<3xf64>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.divide %arg1, %[[V1]] : tensor<3xf64>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.broadcast_in_dim %[[V2]], dims = [1] : (tensor<3xf64>) -> tensor<4x3xf64>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.multiply %[[V3]], %arg3 : tensor<4x3xf64>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.negate %[[V4]] : tensor<4x3xf64>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.reduce(%[[V5]] init: %[[CST_3]]) applies stablehlo.add across dimensions = [0] : (tensor<4x3xf64>, tensor<f64>) -> tensor<3xf64>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.add %arg4, %[[V6]] : tensor<3xf64>
// VJP-NEXT:    %[[V8:.*]] = stablehlo.multiply %[[V7]], %[[CST_1]] : tensor<3xf64>
// VJP-NEXT:    %[[V9:.*]] = stablehlo.broadcast_in_dim %[[V8]], dims = [1] : (tensor<3xf64>) -> tensor<4x3xf64>
// VJP-NEXT:    %[[V10:.*]] = stablehlo.multiply %[[V1]], %[[CST_0]] : tensor<3xf64>
// VJP-NEXT:    %[[V11:.*]] = stablehlo.broadcast_in_dim %[[BATCH_MEAN]], dims = [1] : (tensor<3xf64>) -> tensor<4x3xf64>
// VJP-NEXT:    %[[V12:.*]] = stablehlo.subtract %arg0, %[[V11]] : tensor<4x3xf64>
// VJP-NEXT:    %[[V13:.*]] = stablehlo.multiply %[[V12]], %arg3 : tensor<4x3xf64>
// VJP-NEXT:    %[[V14:.*]] = stablehlo.reduce(%[[V13]] init: %[[CST_3]]) applies stablehlo.add across dimensions = [0] : (tensor<4x3xf64>, tensor<f64>) -> tensor<3xf64>
// VJP-NEXT:    %[[V15:.*]] = stablehlo.divide %[[V14]], %[[V1]] : tensor<3xf64>
// VJP-NEXT:    %[[V16:.*]] = stablehlo.negate %[[V15]] : tensor<3xf64>
// VJP-NEXT:    %[[V17:.*]] = stablehlo.multiply %[[V2]], %[[V16]] : tensor<3xf64>
// VJP-NEXT:    %[[V18:.*]] = stablehlo.divide %[[V17]], %[[V10]] : tensor<3xf64>
// VJP-NEXT:    %[[V19:.*]] = stablehlo.add %arg5, %[[V18]] : tensor<3xf64>
// VJP-NEXT:    %[[V20:.*]] = stablehlo.multiply %[[V19]], %[[CST]] : tensor<3xf64>
// VJP-NEXT:    %[[V21:.*]] = stablehlo.broadcast_in_dim %[[V20]], dims = [1] : (tensor<3xf64>) -> tensor<4x3xf64>
// VJP-NEXT:    %[[V22:.*]] = stablehlo.multiply %[[V12]], %[[V21]] : tensor<4x3xf64>
// VJP-NEXT:    %[[V23:.*]] = stablehlo.add %[[V4]], %[[V22]] : tensor<4x3xf64>
// VJP-NEXT:    %[[V24:.*]] = stablehlo.add %[[V23]], %[[V9]] : tensor<4x3xf64>
// VJP-NEXT:    %[[V25:.*]] = stablehlo.reduce(%arg3 init: %[[CST_3]]) applies stablehlo.add across dimensions = [0] : (tensor<4x3xf64>, tensor<f64>) -> tensor<3xf64>
// VJP-NEXT:    return %[[OUTPUT]], %[[BATCH_MEAN]], %[[BATCH_VAR]], %[[V24]], %[[V15]], %[[V25]] : tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>

func.func @main(%x: tensor<4x3xf64>, %y: tensor<3xf64>, %z: tensor<3xf64>) -> (tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>) {
  %0:3 = "stablehlo.batch_norm_training"(%x, %y, %z) {epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}
    : (tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>) -> (tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>)
  return %0#0, %0#1, %0#2 : tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>
}
