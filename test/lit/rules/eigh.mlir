// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// The rule reads the lower triangle of the tangent, like the op reads that of the matrix. It emits products with v on both
// sides, a division by the gaps between eigenvalues, and another product with v.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[C:.*]] = stablehlo.constant dense<false> : tensor<i1>
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<1.7976931348623157E+308> : tensor<3xf64>
// JVP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<1.618000e+00> : tensor<3x3xf64>
// JVP-NEXT:    %[[CST_2:.*]] = stablehlo.constant dense<3.0767402982137021E-15> : tensor<f64>
// JVP-NEXT:    %[[CST_3:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// JVP-NEXT:    %[[CST_4:.*]] = stablehlo.constant dense<5.000000e-01> : tensor<3x3xf64>
// JVP-NEXT:    %[[CST_5:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3x3xf64>
// JVP-NEXT:    %[[CST_6:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3x3xf64>
// JVP-NEXT:    %[[V0:.*]]:3 = stablehlo.custom_call @lapack_dsyevd_ffi(%arg0) {api_version = 4 : i32, backend_config = {mode = 86 : ui8, uplo = 76 : ui8}} : (tensor<3x3xf64>) -> (tensor<3x3xf64>, tensor<3xf64>, tensor<i32>)
// JVP-NEXT:    %[[V1:.*]] = stablehlo.iota dim = 0 : tensor<3xi32>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.broadcast_in_dim %[[V1]], dims = [1] : (tensor<3xi32>) -> tensor<3x3xi32>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.broadcast_in_dim %[[V1]], dims = [0] : (tensor<3xi32>) -> tensor<3x3xi32>
// JVP-NEXT:    %[[V4:.*]] = stablehlo.compare EQ, %[[V3]], %[[V2]] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
// JVP-NEXT:    %[[V5:.*]] = stablehlo.select %[[V4]], %[[CST_4]], %[[CST_5]] : tensor<3x3xi1>, tensor<3x3xf64>
// JVP-NEXT:    %[[V6:.*]] = stablehlo.multiply %[[V5]], %arg1 : tensor<3x3xf64>
// JVP-NEXT:    %[[V7:.*]] = stablehlo.compare GE, %[[V3]], %[[V2]] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
// JVP-NEXT:    %[[V8:.*]] = stablehlo.select %[[V7]], %[[V6]], %[[CST_6]] : tensor<3x3xi1>, tensor<3x3xf64>
// JVP-NEXT:    %[[V9:.*]] = stablehlo.transpose %[[V8]], dims = [1, 0] : (tensor<3x3xf64>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V10:.*]] = stablehlo.add %[[V8]], %[[V9]] : tensor<3x3xf64>
// JVP-NEXT:    %[[V11:.*]] = stablehlo.dot_general %[[V10]], %[[V0]]#0, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V12:.*]] = stablehlo.transpose %[[V0]]#0, dims = [1, 0] : (tensor<3x3xf64>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V13:.*]] = stablehlo.dot_general %[[V12]], %[[V11]], contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V14:.*]] = stablehlo.broadcast_in_dim %[[V0]]#1, dims = [0] : (tensor<3xf64>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V15:.*]] = stablehlo.broadcast_in_dim %[[V0]]#1, dims = [1] : (tensor<3xf64>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V16:.*]] = stablehlo.subtract %[[V15]], %[[V14]] : tensor<3x3xf64>
// JVP-NEXT:    %[[V17:.*]] = stablehlo.abs %[[V0]]#1 : tensor<3xf64>
// JVP-NEXT:    %[[V18:.*]] = stablehlo.reduce(%[[V17]] init: %[[CST_3]]) applies stablehlo.maximum across dimensions = [0] : (tensor<3xf64>, tensor<f64>) -> tensor<f64>
// JVP-NEXT:    %[[V19:.*]] = stablehlo.multiply %[[V18]], %[[CST_2]] : tensor<f64>
// JVP-NEXT:    %[[V20:.*]] = stablehlo.broadcast_in_dim %[[V19]], dims = [] : (tensor<f64>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V21:.*]] = stablehlo.abs %[[V16]] : tensor<3x3xf64>
// JVP-NEXT:    %[[V22:.*]] = stablehlo.compare LE, %[[V21]], %[[V20]] : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xi1>
// JVP-NEXT:    %[[V23:.*]] = stablehlo.select %[[V22]], %[[CST_5]], %[[V16]] : tensor<3x3xi1>, tensor<3x3xf64>
// JVP-NEXT:    %[[V24:.*]] = stablehlo.divide %[[CST_5]], %[[V23]] : tensor<3x3xf64>
// JVP-NEXT:    %[[V25:.*]] = stablehlo.select %[[V22]], %[[CST_6]], %[[V24]] : tensor<3x3xi1>, tensor<3x3xf64>
// JVP-NEXT:    %[[V26:.*]] = stablehlo.multiply %[[V25]], %[[V13]] : tensor<3x3xf64>
// JVP-NEXT:    %[[V27:.*]] = stablehlo.dot_general %[[V0]]#0, %[[V26]], contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V28:.*]] = stablehlo.iota dim = 0 : tensor<3xf64>
// JVP-NEXT:    %[[V29:.*]] = stablehlo.broadcast_in_dim %[[V28]], dims = [1] : (tensor<3xf64>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V30:.*]] = stablehlo.multiply %[[V29]], %[[CST_1]] : tensor<3x3xf64>
// JVP-NEXT:    %[[V31:.*]] = stablehlo.broadcast_in_dim %[[V28]], dims = [0] : (tensor<3xf64>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V32:.*]] = stablehlo.add %[[V31]], %[[V30]] : tensor<3x3xf64>
// JVP-NEXT:    %[[V33:.*]] = stablehlo.sine %[[V32]] : tensor<3x3xf64>
// JVP-NEXT:    %[[V34:.*]] = stablehlo.multiply %[[V33]], %[[V13]] : tensor<3x3xf64>
// JVP-NEXT:    %[[V35:.*]] = stablehlo.reduce(%[[V34]] init: %[[CST_3]]) applies stablehlo.add across dimensions = [0, 1] : (tensor<3x3xf64>, tensor<f64>) -> tensor<f64>
// JVP-NEXT:    %[[V36:.*]] = stablehlo.broadcast_in_dim %[[V35]], dims = [] : (tensor<f64>) -> tensor<3xf64>
// JVP-NEXT:    %[[V37:.*]] = stablehlo.compare NE, %[[V3]], %[[V2]] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
// JVP-NEXT:    %[[V38:.*]] = stablehlo.and %[[V22]], %[[V37]] : tensor<3x3xi1>
// JVP-NEXT:    %[[V39:.*]] = stablehlo.reduce(%[[V38]] init: %[[C]]) applies stablehlo.or across dimensions = [1] : (tensor<3x3xi1>, tensor<i1>) -> tensor<3xi1>
// JVP-NEXT:    %[[V40:.*]] = stablehlo.select %[[V39]], %[[CST]], %[[CST_0]] : tensor<3xi1>, tensor<3xf64>
// JVP-NEXT:    %[[V41:.*]] = stablehlo.multiply %[[V40]], %[[V36]] : tensor<3xf64>
// JVP-NEXT:    %[[V42:.*]] = stablehlo.multiply %[[V40]], %[[V41]] : tensor<3xf64>
// JVP-NEXT:    %[[V43:.*]] = stablehlo.broadcast_in_dim %[[V42]], dims = [1] : (tensor<3xf64>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V44:.*]] = stablehlo.broadcast_in_dim %[[V39]], dims = [1] : (tensor<3xi1>) -> tensor<3x3xi1>
// JVP-NEXT:    %[[V45:.*]] = stablehlo.select %[[V44]], %[[V43]], %[[V27]] : tensor<3x3xi1>, tensor<3x3xf64>
// JVP-NEXT:    %[[V46:.*]] = stablehlo.select %[[V4]], %[[V13]], %[[CST_6]] : tensor<3x3xi1>, tensor<3x3xf64>
// JVP-NEXT:    %[[V47:.*]] = stablehlo.reduce(%[[V46]] init: %[[CST_3]]) applies stablehlo.add across dimensions = [1] : (tensor<3x3xf64>, tensor<f64>) -> tensor<3xf64>
// JVP-NEXT:    return %[[V0]]#0, %[[V0]]#1, %[[V45]], %[[V47]] : tensor<3x3xf64>, tensor<3xf64>, tensor<3x3xf64>, tensor<3xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<5.000000e-01> : tensor<3x3xf64>
// VJP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<1.618000e+00> : tensor<3x3xf64>
// VJP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<1.7976931348623157E+308> : tensor<3xf64>
// VJP-NEXT:    %[[CST_2:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[CST_3:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3x3xf64>
// VJP-NEXT:    %[[CST_4:.*]] = stablehlo.constant dense<3.0767402982137021E-15> : tensor<f64>
// VJP-NEXT:    %[[CST_5:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[C:.*]] = stablehlo.constant dense<false> : tensor<i1>
// VJP-NEXT:    %[[CST_6:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3x3xf64>
// VJP-NEXT:    %[[V0:.*]]:3 = stablehlo.custom_call @lapack_dsyevd_ffi(%arg0) {api_version = 4 : i32, backend_config = {mode = 86 : ui8, uplo = 76 : ui8}} : (tensor<3x3xf64>) -> (tensor<3x3xf64>, tensor<3xf64>, tensor<i32>)
// VJP-NEXT:    %[[V1:.*]] = stablehlo.broadcast_in_dim %arg2, dims = [0] : (tensor<3xf64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.iota dim = 0 : tensor<3xi32>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.broadcast_in_dim %[[V2]], dims = [1] : (tensor<3xi32>) -> tensor<3x3xi32>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.broadcast_in_dim %[[V2]], dims = [0] : (tensor<3xi32>) -> tensor<3x3xi32>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.compare EQ, %[[V4]], %[[V3]] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.select %[[V5]], %[[V1]], %[[CST_6]] : tensor<3x3xi1>, tensor<3x3xf64>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.compare NE, %[[V4]], %[[V3]] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
// VJP-NEXT:    %[[V8:.*]] = stablehlo.abs %[[V0]]#1 : tensor<3xf64>
// VJP-NEXT:    %[[V9:.*]] = stablehlo.reduce(%[[V8]] init: %[[CST_5]]) applies stablehlo.maximum across dimensions = [0] : (tensor<3xf64>, tensor<f64>) -> tensor<f64>
// VJP-NEXT:    %[[V10:.*]] = stablehlo.multiply %[[V9]], %[[CST_4]] : tensor<f64>
// VJP-NEXT:    %[[V11:.*]] = stablehlo.broadcast_in_dim %[[V10]], dims = [] : (tensor<f64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V12:.*]] = stablehlo.broadcast_in_dim %[[V0]]#1, dims = [0] : (tensor<3xf64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V13:.*]] = stablehlo.broadcast_in_dim %[[V0]]#1, dims = [1] : (tensor<3xf64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V14:.*]] = stablehlo.subtract %[[V13]], %[[V12]] : tensor<3x3xf64>
// VJP-NEXT:    %[[V15:.*]] = stablehlo.abs %[[V14]] : tensor<3x3xf64>
// VJP-NEXT:    %[[V16:.*]] = stablehlo.compare LE, %[[V15]], %[[V11]] : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xi1>
// VJP-NEXT:    %[[V17:.*]] = stablehlo.and %[[V16]], %[[V7]] : tensor<3x3xi1>
// VJP-NEXT:    %[[V18:.*]] = stablehlo.reduce(%[[V17]] init: %[[C]]) applies stablehlo.or across dimensions = [1] : (tensor<3x3xi1>, tensor<i1>) -> tensor<3xi1>
// VJP-NEXT:    %[[V19:.*]] = stablehlo.broadcast_in_dim %[[V18]], dims = [1] : (tensor<3xi1>) -> tensor<3x3xi1>
// VJP-NEXT:    %[[V20:.*]] = stablehlo.select %[[V19]], %[[CST_6]], %arg1 : tensor<3x3xi1>, tensor<3x3xf64>
// VJP-NEXT:    %[[V21:.*]] = stablehlo.dot_general %[[V0]]#0, %[[V20]], contracting_dims = [0] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V22:.*]] = stablehlo.select %[[V16]], %[[CST_3]], %[[V14]] : tensor<3x3xi1>, tensor<3x3xf64>
// VJP-NEXT:    %[[V23:.*]] = stablehlo.divide %[[CST_3]], %[[V22]] : tensor<3x3xf64>
// VJP-NEXT:    %[[V24:.*]] = stablehlo.select %[[V16]], %[[CST_6]], %[[V23]] : tensor<3x3xi1>, tensor<3x3xf64>
// VJP-NEXT:    %[[V25:.*]] = stablehlo.multiply %[[V24]], %[[V21]] : tensor<3x3xf64>
// VJP-NEXT:    %[[V26:.*]] = stablehlo.select %[[V19]], %arg1, %[[CST_6]] : tensor<3x3xi1>, tensor<3x3xf64>
// VJP-NEXT:    %[[V27:.*]] = stablehlo.reduce(%[[V26]] init: %[[CST_5]]) applies stablehlo.add across dimensions = [0] : (tensor<3x3xf64>, tensor<f64>) -> tensor<3xf64>
// VJP-NEXT:    %[[V28:.*]] = stablehlo.select %[[V18]], %[[CST_1]], %[[CST_2]] : tensor<3xi1>, tensor<3xf64>
// VJP-NEXT:    %[[V29:.*]] = stablehlo.multiply %[[V28]], %[[V27]] : tensor<3xf64>
// VJP-NEXT:    %[[V30:.*]] = stablehlo.multiply %[[V28]], %[[V29]] : tensor<3xf64>
// VJP-NEXT:    %[[V31:.*]] = stablehlo.reduce(%[[V30]] init: %[[CST_5]]) applies stablehlo.add across dimensions = [0] : (tensor<3xf64>, tensor<f64>) -> tensor<f64>
// VJP-NEXT:    %[[V32:.*]] = stablehlo.broadcast_in_dim %[[V31]], dims = [] : (tensor<f64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V33:.*]] = stablehlo.iota dim = 0 : tensor<3xf64>
// VJP-NEXT:    %[[V34:.*]] = stablehlo.broadcast_in_dim %[[V33]], dims = [1] : (tensor<3xf64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V35:.*]] = stablehlo.multiply %[[V34]], %[[CST_0]] : tensor<3x3xf64>
// VJP-NEXT:    %[[V36:.*]] = stablehlo.broadcast_in_dim %[[V33]], dims = [0] : (tensor<3xf64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V37:.*]] = stablehlo.add %[[V36]], %[[V35]] : tensor<3x3xf64>
// VJP-NEXT:    %[[V38:.*]] = stablehlo.sine %[[V37]] : tensor<3x3xf64>
// VJP-NEXT:    %[[V39:.*]] = stablehlo.multiply %[[V38]], %[[V32]] : tensor<3x3xf64>
// VJP-NEXT:    %[[V40:.*]] = stablehlo.add %[[V39]], %[[V25]] : tensor<3x3xf64>
// VJP-NEXT:    %[[V41:.*]] = stablehlo.add %[[V40]], %[[V6]] : tensor<3x3xf64>
// VJP-NEXT:    %[[V42:.*]] = stablehlo.transpose %[[V0]]#0, dims = [1, 0] : (tensor<3x3xf64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V43:.*]] = stablehlo.dot_general %[[V42]], %[[V41]], contracting_dims = [0] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V44:.*]] = stablehlo.dot_general %[[V43]], %[[V0]]#0, contracting_dims = [1] x [1], precision = [HIGHEST, HIGHEST] : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V45:.*]] = stablehlo.transpose %[[V44]], dims = [1, 0] : (tensor<3x3xf64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V46:.*]] = stablehlo.add %[[V44]], %[[V45]] : tensor<3x3xf64>
// VJP-NEXT:    %[[V47:.*]] = stablehlo.compare GE, %[[V4]], %[[V3]] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
// VJP-NEXT:    %[[V48:.*]] = stablehlo.select %[[V47]], %[[V46]], %[[CST_6]] : tensor<3x3xi1>, tensor<3x3xf64>
// VJP-NEXT:    %[[V49:.*]] = stablehlo.select %[[V5]], %[[CST]], %[[CST_3]] : tensor<3x3xi1>, tensor<3x3xf64>
// VJP-NEXT:    %[[V50:.*]] = stablehlo.multiply %[[V49]], %[[V48]] : tensor<3x3xf64>
// VJP-NEXT:    return %[[V0]]#0, %[[V0]]#1, %[[V50]] : tensor<3x3xf64>, tensor<3xf64>, tensor<3x3xf64>

func.func @main(%x: tensor<3x3xf64>) -> (tensor<3x3xf64>, tensor<3xf64>) {
  %0:3 = stablehlo.custom_call @lapack_dsyevd_ffi(%x) {api_version = 4 : i32, backend_config = {mode = 86 : ui8, uplo = 76 : ui8}} : (tensor<3x3xf64>) -> (tensor<3x3xf64>, tensor<3xf64>, tensor<i32>)
  return %0#0, %0#1 : tensor<3x3xf64>, tensor<3xf64>
}
