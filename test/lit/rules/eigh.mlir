// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// The rule reads the lower triangle of the tangent, as of the matrix; products with v on both sides, the gaps between
// eigenvalues, and another product with v.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<3.0767402982137021E-15> : tensor<f64>
// JVP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// JVP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<5.000000e-01> : tensor<3x3xf64>
// JVP-NEXT:    %[[CST_2:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3x3xf64>
// JVP-NEXT:    %[[CST_3:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3x3xf64>
// JVP-NEXT:    %[[V0:.*]]:3 = stablehlo.custom_call @lapack_dsyevd_ffi(%arg0) {api_version = 4 : i32, backend_config = {mode = 86 : ui8, uplo = 76 : ui8}} : (tensor<3x3xf64>) -> (tensor<3x3xf64>, tensor<3xf64>, tensor<i32>)
// JVP-NEXT:    %[[V1:.*]] = stablehlo.iota dim = 0 : tensor<3xi32>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.broadcast_in_dim %[[V1]], dims = [1] : (tensor<3xi32>) -> tensor<3x3xi32>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.broadcast_in_dim %[[V1]], dims = [0] : (tensor<3xi32>) -> tensor<3x3xi32>
// JVP-NEXT:    %[[V4:.*]] = stablehlo.compare EQ, %[[V3]], %[[V2]] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
// JVP-NEXT:    %[[V5:.*]] = stablehlo.select %[[V4]], %[[CST_1]], %[[CST_2]] : tensor<3x3xi1>, tensor<3x3xf64>
// JVP-NEXT:    %[[V6:.*]] = stablehlo.multiply %[[V5]], %arg1 : tensor<3x3xf64>
// JVP-NEXT:    %[[V7:.*]] = stablehlo.compare GE, %[[V3]], %[[V2]] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
// JVP-NEXT:    %[[V8:.*]] = stablehlo.select %[[V7]], %[[V6]], %[[CST_3]] : tensor<3x3xi1>, tensor<3x3xf64>
// JVP-NEXT:    %[[V9:.*]] = stablehlo.transpose %[[V8]], dims = [1, 0] : (tensor<3x3xf64>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V10:.*]] = stablehlo.add %[[V8]], %[[V9]] : tensor<3x3xf64>
// JVP-NEXT:    %[[V11:.*]] = stablehlo.dot_general %[[V10]], %[[V0]]#0, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V12:.*]] = stablehlo.transpose %[[V0]]#0, dims = [1, 0] : (tensor<3x3xf64>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V13:.*]] = stablehlo.dot_general %[[V12]], %[[V11]], contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V14:.*]] = stablehlo.broadcast_in_dim %[[V0]]#1, dims = [0] : (tensor<3xf64>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V15:.*]] = stablehlo.broadcast_in_dim %[[V0]]#1, dims = [1] : (tensor<3xf64>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V16:.*]] = stablehlo.subtract %[[V15]], %[[V14]] : tensor<3x3xf64>
// JVP-NEXT:    %[[V17:.*]] = stablehlo.abs %[[V0]]#1 : tensor<3xf64>
// JVP-NEXT:    %[[V18:.*]] = stablehlo.reduce(%[[V17]] init: %[[CST_0]]) applies stablehlo.maximum across dimensions = [0] : (tensor<3xf64>, tensor<f64>) -> tensor<f64>
// JVP-NEXT:    %[[V19:.*]] = stablehlo.multiply %[[V18]], %[[CST]] : tensor<f64>
// JVP-NEXT:    %[[V20:.*]] = stablehlo.broadcast_in_dim %[[V19]], dims = [] : (tensor<f64>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V21:.*]] = stablehlo.abs %[[V16]] : tensor<3x3xf64>
// JVP-NEXT:    %[[V22:.*]] = stablehlo.compare LE, %[[V21]], %[[V20]] : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xi1>
// JVP-NEXT:    %[[V23:.*]] = stablehlo.select %[[V22]], %[[CST_2]], %[[V16]] : tensor<3x3xi1>, tensor<3x3xf64>
// JVP-NEXT:    %[[V24:.*]] = stablehlo.divide %[[CST_2]], %[[V23]] : tensor<3x3xf64>
// JVP-NEXT:    %[[V25:.*]] = stablehlo.select %[[V22]], %[[CST_3]], %[[V24]] : tensor<3x3xi1>, tensor<3x3xf64>
// JVP-NEXT:    %[[V26:.*]] = stablehlo.multiply %[[V25]], %[[V13]] : tensor<3x3xf64>
// JVP-NEXT:    %[[V27:.*]] = stablehlo.dot_general %[[V0]]#0, %[[V26]], contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V28:.*]] = stablehlo.select %[[V4]], %[[V13]], %[[CST_3]] : tensor<3x3xi1>, tensor<3x3xf64>
// JVP-NEXT:    %[[V29:.*]] = stablehlo.reduce(%[[V28]] init: %[[CST_0]]) applies stablehlo.add across dimensions = [1] : (tensor<3x3xf64>, tensor<f64>) -> tensor<3xf64>
// JVP-NEXT:    return %[[V0]]#0, %[[V0]]#1, %[[V27]], %[[V29]] : tensor<3x3xf64>, tensor<3xf64>, tensor<3x3xf64>, tensor<3xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<5.000000e-01> : tensor<3x3xf64>
// VJP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<3.0767402982137021E-15> : tensor<f64>
// VJP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[CST_2:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3x3xf64>
// VJP-NEXT:    %[[CST_3:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3x3xf64>
// VJP-NEXT:    %[[V0:.*]]:3 = stablehlo.custom_call @lapack_dsyevd_ffi(%arg0) {api_version = 4 : i32, backend_config = {mode = 86 : ui8, uplo = 76 : ui8}} : (tensor<3x3xf64>) -> (tensor<3x3xf64>, tensor<3xf64>, tensor<i32>)
// VJP-NEXT:    %[[V1:.*]] = stablehlo.broadcast_in_dim %arg2, dims = [0] : (tensor<3xf64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.iota dim = 0 : tensor<3xi32>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.broadcast_in_dim %[[V2]], dims = [1] : (tensor<3xi32>) -> tensor<3x3xi32>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.broadcast_in_dim %[[V2]], dims = [0] : (tensor<3xi32>) -> tensor<3x3xi32>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.compare EQ, %[[V4]], %[[V3]] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.select %[[V5]], %[[V1]], %[[CST_3]] : tensor<3x3xi1>, tensor<3x3xf64>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.dot_general %[[V0]]#0, %arg1, contracting_dims = [0] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V8:.*]] = stablehlo.broadcast_in_dim %[[V0]]#1, dims = [0] : (tensor<3xf64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V9:.*]] = stablehlo.broadcast_in_dim %[[V0]]#1, dims = [1] : (tensor<3xf64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V10:.*]] = stablehlo.subtract %[[V9]], %[[V8]] : tensor<3x3xf64>
// VJP-NEXT:    %[[V11:.*]] = stablehlo.abs %[[V0]]#1 : tensor<3xf64>
// VJP-NEXT:    %[[V12:.*]] = stablehlo.reduce(%[[V11]] init: %[[CST_1]]) applies stablehlo.maximum across dimensions = [0] : (tensor<3xf64>, tensor<f64>) -> tensor<f64>
// VJP-NEXT:    %[[V13:.*]] = stablehlo.multiply %[[V12]], %[[CST_0]] : tensor<f64>
// VJP-NEXT:    %[[V14:.*]] = stablehlo.broadcast_in_dim %[[V13]], dims = [] : (tensor<f64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V15:.*]] = stablehlo.abs %[[V10]] : tensor<3x3xf64>
// VJP-NEXT:    %[[V16:.*]] = stablehlo.compare LE, %[[V15]], %[[V14]] : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xi1>
// VJP-NEXT:    %[[V17:.*]] = stablehlo.select %[[V16]], %[[CST_2]], %[[V10]] : tensor<3x3xi1>, tensor<3x3xf64>
// VJP-NEXT:    %[[V18:.*]] = stablehlo.divide %[[CST_2]], %[[V17]] : tensor<3x3xf64>
// VJP-NEXT:    %[[V19:.*]] = stablehlo.select %[[V16]], %[[CST_3]], %[[V18]] : tensor<3x3xi1>, tensor<3x3xf64>
// VJP-NEXT:    %[[V20:.*]] = stablehlo.multiply %[[V19]], %[[V7]] : tensor<3x3xf64>
// VJP-NEXT:    %[[V21:.*]] = stablehlo.add %[[V20]], %[[V6]] : tensor<3x3xf64>
// VJP-NEXT:    %[[V22:.*]] = stablehlo.transpose %[[V0]]#0, dims = [1, 0] : (tensor<3x3xf64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V23:.*]] = stablehlo.dot_general %[[V22]], %[[V21]], contracting_dims = [0] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V24:.*]] = stablehlo.dot_general %[[V23]], %[[V0]]#0, contracting_dims = [1] x [1], precision = [HIGHEST, HIGHEST] : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V25:.*]] = stablehlo.transpose %[[V24]], dims = [1, 0] : (tensor<3x3xf64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V26:.*]] = stablehlo.add %[[V24]], %[[V25]] : tensor<3x3xf64>
// VJP-NEXT:    %[[V27:.*]] = stablehlo.compare GE, %[[V4]], %[[V3]] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
// VJP-NEXT:    %[[V28:.*]] = stablehlo.select %[[V27]], %[[V26]], %[[CST_3]] : tensor<3x3xi1>, tensor<3x3xf64>
// VJP-NEXT:    %[[V29:.*]] = stablehlo.select %[[V5]], %[[CST]], %[[CST_2]] : tensor<3x3xi1>, tensor<3x3xf64>
// VJP-NEXT:    %[[V30:.*]] = stablehlo.multiply %[[V29]], %[[V28]] : tensor<3x3xf64>
// VJP-NEXT:    return %[[V0]]#0, %[[V0]]#1, %[[V30]] : tensor<3x3xf64>, tensor<3xf64>, tensor<3x3xf64>

func.func @main(%x: tensor<3x3xf64>) -> (tensor<3x3xf64>, tensor<3xf64>) {
  %0:3 = stablehlo.custom_call @lapack_dsyevd_ffi(%x) {api_version = 4 : i32, backend_config = {mode = 86 : ui8, uplo = 76 : ui8}} : (tensor<3x3xf64>) -> (tensor<3x3xf64>, tensor<3xf64>, tensor<i32>)
  return %0#0, %0#1 : tensor<3x3xf64>, tensor<3xf64>
}
