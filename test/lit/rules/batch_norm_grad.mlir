// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// The op is expanded into others, each with its own rule.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<2.500000e-01> : tensor<4x3xf64>
// JVP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<2.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<0.0010000000474974513> : tensor<3xf64>
// JVP-NEXT:    %[[CST_2:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// JVP-NEXT:    %[[GRAD_OPERAND:.*]], %[[GRAD_SCALE:.*]], %[[GRAD_OFFSET:.*]] = "stablehlo.batch_norm_grad"(%arg0, %arg1, %arg2, %arg3, %arg4) <{epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}> : (tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<4x3xf64>) -> (tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>)
// JVP-NEXT:    %[[V0:.*]] = stablehlo.add %arg3, %[[CST_1]] : tensor<3xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.sqrt %[[V0]] : tensor<3xf64>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.broadcast_in_dim %[[V1]], dims = [1] : (tensor<3xf64>) -> tensor<4x3xf64>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<3xf64>) -> tensor<4x3xf64>
// JVP-NEXT:    %[[V4:.*]] = stablehlo.subtract %arg0, %[[V3]] : tensor<4x3xf64>
// JVP-NEXT:    %[[V5:.*]] = stablehlo.divide %[[V4]], %[[V2]] : tensor<4x3xf64>
// JVP-NEXT:    %[[V6:.*]] = stablehlo.multiply %[[V5]], %arg9 : tensor<4x3xf64>
// JVP-NEXT:    %[[V7:.*]] = stablehlo.multiply %[[V1]], %[[CST_0]] : tensor<3xf64>
// JVP-NEXT:    %[[V8:.*]] = stablehlo.divide %arg8, %[[V7]] : tensor<3xf64>
// JVP-NEXT:    %[[V9:.*]] = stablehlo.broadcast_in_dim %[[V8]], dims = [1] : (tensor<3xf64>) -> tensor<4x3xf64>
// JVP-NEXT:    %[[V10:.*]] = stablehlo.multiply %[[V5]], %[[V9]] : tensor<4x3xf64>
// JVP-NEXT:    %[[V11:.*]] = stablehlo.broadcast_in_dim %arg7, dims = [1] : (tensor<3xf64>) -> tensor<4x3xf64>
// JVP-NEXT:    %[[V12:.*]] = stablehlo.subtract %arg5, %[[V11]] : tensor<4x3xf64>
// JVP-NEXT:    %[[V13:.*]] = stablehlo.subtract %[[V12]], %[[V10]] : tensor<4x3xf64>
// JVP-NEXT:    %[[V14:.*]] = stablehlo.divide %[[V13]], %[[V2]] : tensor<4x3xf64>
// JVP-NEXT:    %[[V15:.*]] = stablehlo.multiply %[[V14]], %arg4 : tensor<4x3xf64>
// JVP-NEXT:    %[[V16:.*]] = stablehlo.add %[[V15]], %[[V6]] : tensor<4x3xf64>
// JVP-NEXT:    %[[V17:.*]] = stablehlo.reduce(%[[V16]] init: %[[CST_2]]) applies stablehlo.add across dimensions = [0] : (tensor<4x3xf64>, tensor<f64>) -> tensor<3xf64>
// JVP-NEXT:    %[[V18:.*]] = stablehlo.broadcast_in_dim %[[V17]], dims = [1] : (tensor<3xf64>) -> tensor<4x3xf64>
// JVP-NEXT:    %[[V19:.*]] = stablehlo.multiply %[[V5]], %[[V18]] : tensor<4x3xf64>
// JVP-NEXT:    %[[V20:.*]] = stablehlo.multiply %[[V5]], %arg4 : tensor<4x3xf64>
// JVP-NEXT:    %[[V21:.*]] = stablehlo.reduce(%[[V20]] init: %[[CST_2]]) applies stablehlo.add across dimensions = [0] : (tensor<4x3xf64>, tensor<f64>) -> tensor<3xf64>
// JVP-NEXT:    %[[V22:.*]] = stablehlo.broadcast_in_dim %[[V21]], dims = [1] : (tensor<3xf64>) -> tensor<4x3xf64>
// JVP-NEXT:    %[[V23:.*]] = stablehlo.multiply %[[V14]], %[[V22]] : tensor<4x3xf64>
// JVP-NEXT:    %[[V24:.*]] = stablehlo.add %[[V23]], %[[V19]] : tensor<4x3xf64>
// JVP-NEXT:    %[[V25:.*]] = stablehlo.reduce(%arg9 init: %[[CST_2]]) applies stablehlo.add across dimensions = [0] : (tensor<4x3xf64>, tensor<f64>) -> tensor<3xf64>
// JVP-NEXT:    %[[V26:.*]] = stablehlo.broadcast_in_dim %[[V25]], dims = [1] : (tensor<3xf64>) -> tensor<4x3xf64>
// JVP-NEXT:    %[[V27:.*]] = stablehlo.add %[[V26]], %[[V24]] : tensor<4x3xf64>
// JVP-NEXT:    %[[V28:.*]] = stablehlo.multiply %[[V27]], %[[CST]] : tensor<4x3xf64>
// JVP-NEXT:    %[[V29:.*]] = stablehlo.subtract %arg9, %[[V28]] : tensor<4x3xf64>
// JVP-NEXT:    %[[V30:.*]] = stablehlo.divide %arg1, %[[V1]] : tensor<3xf64>
// JVP-NEXT:    %[[V31:.*]] = stablehlo.broadcast_in_dim %[[V30]], dims = [1] : (tensor<3xf64>) -> tensor<4x3xf64>
// JVP-NEXT:    %[[V32:.*]] = stablehlo.multiply %[[V31]], %[[V29]] : tensor<4x3xf64>
// JVP-NEXT:    %[[V33:.*]] = stablehlo.multiply %[[V5]], %[[V22]] : tensor<4x3xf64>
// JVP-NEXT:    %[[V34:.*]] = stablehlo.reduce(%arg4 init: %[[CST_2]]) applies stablehlo.add across dimensions = [0] : (tensor<4x3xf64>, tensor<f64>) -> tensor<3xf64>
// JVP-NEXT:    %[[V35:.*]] = stablehlo.broadcast_in_dim %[[V34]], dims = [1] : (tensor<3xf64>) -> tensor<4x3xf64>
// JVP-NEXT:    %[[V36:.*]] = stablehlo.add %[[V35]], %[[V33]] : tensor<4x3xf64>
// JVP-NEXT:    %[[V37:.*]] = stablehlo.multiply %[[V36]], %[[CST]] : tensor<4x3xf64>
// JVP-NEXT:    %[[V38:.*]] = stablehlo.subtract %arg4, %[[V37]] : tensor<4x3xf64>
// JVP-NEXT:    %[[V39:.*]] = stablehlo.multiply %[[V30]], %[[V8]] : tensor<3xf64>
// JVP-NEXT:    %[[V40:.*]] = stablehlo.subtract %arg6, %[[V39]] : tensor<3xf64>
// JVP-NEXT:    %[[V41:.*]] = stablehlo.divide %[[V40]], %[[V1]] : tensor<3xf64>
// JVP-NEXT:    %[[V42:.*]] = stablehlo.broadcast_in_dim %[[V41]], dims = [1] : (tensor<3xf64>) -> tensor<4x3xf64>
// JVP-NEXT:    %[[V43:.*]] = stablehlo.multiply %[[V42]], %[[V38]] : tensor<4x3xf64>
// JVP-NEXT:    %[[V44:.*]] = stablehlo.add %[[V43]], %[[V32]] : tensor<4x3xf64>
// JVP-NEXT:    return %[[GRAD_OPERAND]], %[[GRAD_SCALE]], %[[GRAD_OFFSET]], %[[V44]], %[[V17]], %[[V25]] : tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<2.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<2.500000e-01> : tensor<4x3xf64>
// VJP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[CST_2:.*]] = stablehlo.constant dense<0.0010000000474974513> : tensor<3xf64>
// VJP-NEXT:    %[[GRAD_OPERAND:.*]], %[[GRAD_SCALE:.*]], %[[GRAD_OFFSET:.*]] = "stablehlo.batch_norm_grad"(%arg0, %arg1, %arg2, %arg3, %arg4) <{epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}> : (tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<4x3xf64>) -> (tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>)
// VJP-NEXT:    %[[V0:.*]] = stablehlo.add %arg3, %[[CST_2]] : tensor<3xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.sqrt %[[V0]] : tensor<3xf64>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.broadcast_in_dim %[[V1]], dims = [1] : (tensor<3xf64>) -> tensor<4x3xf64>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.divide %arg1, %[[V1]] : tensor<3xf64>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.broadcast_in_dim %[[V3]], dims = [1] : (tensor<3xf64>) -> tensor<4x3xf64>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.multiply %[[V4]], %arg5 : tensor<4x3xf64>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.negate %[[V5]] : tensor<4x3xf64>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.multiply %[[V6]], %[[CST_0]] : tensor<4x3xf64>
// VJP-NEXT:    %[[V8:.*]] = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<3xf64>) -> tensor<4x3xf64>
// VJP-NEXT:    %[[V9:.*]] = stablehlo.subtract %arg0, %[[V8]] : tensor<4x3xf64>
// VJP-NEXT:    %[[V10:.*]] = stablehlo.divide %[[V9]], %[[V2]] : tensor<4x3xf64>
// VJP-NEXT:    %[[V11:.*]] = stablehlo.multiply %[[V10]], %[[V7]] : tensor<4x3xf64>
// VJP-NEXT:    %[[V12:.*]] = stablehlo.reduce(%[[V11]] init: %[[CST_1]]) applies stablehlo.add across dimensions = [0] : (tensor<4x3xf64>, tensor<f64>) -> tensor<3xf64>
// VJP-NEXT:    %[[V13:.*]] = stablehlo.add %arg6, %[[V12]] : tensor<3xf64>
// VJP-NEXT:    %[[V14:.*]] = stablehlo.broadcast_in_dim %[[V13]], dims = [1] : (tensor<3xf64>) -> tensor<4x3xf64>
// VJP-NEXT:    %[[V15:.*]] = stablehlo.multiply %arg4, %[[V14]] : tensor<4x3xf64>
// VJP-NEXT:    %[[V16:.*]] = stablehlo.multiply %[[V10]], %arg4 : tensor<4x3xf64>
// VJP-NEXT:    %[[V17:.*]] = stablehlo.reduce(%[[V16]] init: %[[CST_1]]) applies stablehlo.add across dimensions = [0] : (tensor<4x3xf64>, tensor<f64>) -> tensor<3xf64>
// VJP-NEXT:    %[[V18:.*]] = stablehlo.broadcast_in_dim %[[V17]], dims = [1] : (tensor<3xf64>) -> tensor<4x3xf64>
// VJP-NEXT:    %[[V19:.*]] = stablehlo.multiply %[[V18]], %[[V7]] : tensor<4x3xf64>
// VJP-NEXT:    %[[V20:.*]] = stablehlo.add %[[V19]], %[[V15]] : tensor<4x3xf64>
// VJP-NEXT:    %[[V21:.*]] = stablehlo.divide %[[V20]], %[[V2]] : tensor<4x3xf64>
// VJP-NEXT:    %[[V22:.*]] = stablehlo.multiply %[[V10]], %[[V18]] : tensor<4x3xf64>
// VJP-NEXT:    %[[V23:.*]] = stablehlo.reduce(%arg4 init: %[[CST_1]]) applies stablehlo.add across dimensions = [0] : (tensor<4x3xf64>, tensor<f64>) -> tensor<3xf64>
// VJP-NEXT:    %[[V24:.*]] = stablehlo.broadcast_in_dim %[[V23]], dims = [1] : (tensor<3xf64>) -> tensor<4x3xf64>
// VJP-NEXT:    %[[V25:.*]] = stablehlo.add %[[V24]], %[[V22]] : tensor<4x3xf64>
// VJP-NEXT:    %[[V26:.*]] = stablehlo.multiply %[[V25]], %[[CST_0]] : tensor<4x3xf64>
// VJP-NEXT:    %[[V27:.*]] = stablehlo.subtract %arg4, %[[V26]] : tensor<4x3xf64>
// VJP-NEXT:    %[[V28:.*]] = stablehlo.multiply %[[V27]], %arg5 : tensor<4x3xf64>
// VJP-NEXT:    %[[V29:.*]] = stablehlo.reduce(%[[V28]] init: %[[CST_1]]) applies stablehlo.add across dimensions = [0] : (tensor<4x3xf64>, tensor<f64>) -> tensor<3xf64>
// VJP-NEXT:    %[[V30:.*]] = stablehlo.divide %[[V29]], %[[V1]] : tensor<3xf64>
// VJP-NEXT:    %[[V31:.*]] = stablehlo.negate %[[V21]] : tensor<4x3xf64>
// VJP-NEXT:    %[[V32:.*]] = stablehlo.reduce(%[[V31]] init: %[[CST_1]]) applies stablehlo.add across dimensions = [0] : (tensor<4x3xf64>, tensor<f64>) -> tensor<3xf64>
// VJP-NEXT:    %[[V33:.*]] = stablehlo.multiply %[[V1]], %[[CST]] : tensor<3xf64>
// VJP-NEXT:    %[[V34:.*]] = stablehlo.multiply %[[V10]], %[[V31]] : tensor<4x3xf64>
// VJP-NEXT:    %[[V35:.*]] = stablehlo.reduce(%[[V34]] init: %[[CST_1]]) applies stablehlo.add across dimensions = [0] : (tensor<4x3xf64>, tensor<f64>) -> tensor<3xf64>
// VJP-NEXT:    %[[V36:.*]] = stablehlo.negate %[[V30]] : tensor<3xf64>
// VJP-NEXT:    %[[V37:.*]] = stablehlo.multiply %[[V3]], %[[V36]] : tensor<3xf64>
// VJP-NEXT:    %[[V38:.*]] = stablehlo.add %[[V37]], %[[V35]] : tensor<3xf64>
// VJP-NEXT:    %[[V39:.*]] = stablehlo.divide %[[V38]], %[[V33]] : tensor<3xf64>
// VJP-NEXT:    %[[V40:.*]] = stablehlo.multiply %[[V10]], %[[V14]] : tensor<4x3xf64>
// VJP-NEXT:    %[[V41:.*]] = stablehlo.reduce(%[[V7]] init: %[[CST_1]]) applies stablehlo.add across dimensions = [0] : (tensor<4x3xf64>, tensor<f64>) -> tensor<3xf64>
// VJP-NEXT:    %[[V42:.*]] = stablehlo.add %arg7, %[[V41]] : tensor<3xf64>
// VJP-NEXT:    %[[V43:.*]] = stablehlo.broadcast_in_dim %[[V42]], dims = [1] : (tensor<3xf64>) -> tensor<4x3xf64>
// VJP-NEXT:    %[[V44:.*]] = stablehlo.add %[[V5]], %[[V43]] : tensor<4x3xf64>
// VJP-NEXT:    %[[V45:.*]] = stablehlo.add %[[V44]], %[[V40]] : tensor<4x3xf64>
// VJP-NEXT:    return %[[GRAD_OPERAND]], %[[GRAD_SCALE]], %[[GRAD_OFFSET]], %[[V21]], %[[V30]], %[[V32]], %[[V39]], %[[V45]] : tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<4x3xf64>

func.func @main(%x: tensor<4x3xf64>, %y: tensor<3xf64>, %z: tensor<3xf64>, %v: tensor<3xf64>, %w: tensor<4x3xf64>) -> (tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>) {
  %0:3 = "stablehlo.batch_norm_grad"(%x, %y, %z, %v, %w) {epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}
    : (tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<4x3xf64>) -> (tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>)
  return %0#0, %0#1, %0#2 : tensor<4x3xf64>, tensor<3xf64>, tensor<3xf64>
}
