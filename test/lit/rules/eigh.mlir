// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// The rule reads the lower triangle of the tangent, as of the matrix; products with v on both sides, the gaps between
// eigenvalues, and another product with v.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// JVP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<5.000000e-01> : tensor<3x3xf64>
// JVP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3x3xf64>
// JVP-NEXT:    %[[CST_2:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3x3xf64>
// JVP-NEXT:    %[[V0:.*]]:3 = stablehlo.custom_call @lapack_dsyevd_ffi(%arg0) {api_version = 4 : i32, backend_config = {mode = 86 : ui8, uplo = 76 : ui8}} : (tensor<3x3xf64>) -> (tensor<3x3xf64>, tensor<3xf64>, tensor<i32>)
// JVP-NEXT:    %[[V1:.*]] = stablehlo.iota dim = 0 : tensor<3xi32>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.broadcast_in_dim %[[V1]], dims = [1] : (tensor<3xi32>) -> tensor<3x3xi32>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.broadcast_in_dim %[[V1]], dims = [0] : (tensor<3xi32>) -> tensor<3x3xi32>
// JVP-NEXT:    %[[V4:.*]] = stablehlo.compare EQ, %[[V3]], %[[V2]] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
// JVP-NEXT:    %[[V5:.*]] = stablehlo.select %[[V4]], %[[CST_0]], %[[CST_1]] : tensor<3x3xi1>, tensor<3x3xf64>
// JVP-NEXT:    %[[V6:.*]] = stablehlo.multiply %[[V5]], %arg1 : tensor<3x3xf64>
// JVP-NEXT:    %[[V7:.*]] = stablehlo.compare GE, %[[V3]], %[[V2]] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
// JVP-NEXT:    %[[V8:.*]] = stablehlo.select %[[V7]], %[[V6]], %[[CST_2]] : tensor<3x3xi1>, tensor<3x3xf64>
// JVP-NEXT:    %[[V9:.*]] = stablehlo.transpose %[[V8]], dims = [1, 0] : (tensor<3x3xf64>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V10:.*]] = stablehlo.add %[[V8]], %[[V9]] : tensor<3x3xf64>
// JVP-NEXT:    %[[V11:.*]] = stablehlo.dot_general %[[V10]], %[[V0]]#0, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V12:.*]] = stablehlo.transpose %[[V0]]#0, dims = [1, 0] : (tensor<3x3xf64>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V13:.*]] = stablehlo.dot_general %[[V12]], %[[V11]], contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V14:.*]] = stablehlo.broadcast_in_dim %[[V0]]#1, dims = [0] : (tensor<3xf64>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V15:.*]] = stablehlo.broadcast_in_dim %[[V0]]#1, dims = [1] : (tensor<3xf64>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V16:.*]] = stablehlo.subtract %[[V15]], %[[V14]] : tensor<3x3xf64>
// JVP-NEXT:    %[[V17:.*]] = stablehlo.compare EQ, %[[V16]], %[[CST_2]] : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xi1>
// JVP-NEXT:    %[[V18:.*]] = stablehlo.select %[[V17]], %[[CST_1]], %[[V16]] : tensor<3x3xi1>, tensor<3x3xf64>
// JVP-NEXT:    %[[V19:.*]] = stablehlo.divide %[[CST_1]], %[[V18]] : tensor<3x3xf64>
// JVP-NEXT:    %[[V20:.*]] = stablehlo.select %[[V17]], %[[CST_2]], %[[V19]] : tensor<3x3xi1>, tensor<3x3xf64>
// JVP-NEXT:    %[[V21:.*]] = stablehlo.multiply %[[V20]], %[[V13]] : tensor<3x3xf64>
// JVP-NEXT:    %[[V22:.*]] = stablehlo.dot_general %[[V0]]#0, %[[V21]], contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V23:.*]] = stablehlo.select %[[V4]], %[[V13]], %[[CST_2]] : tensor<3x3xi1>, tensor<3x3xf64>
// JVP-NEXT:    %[[V24:.*]] = stablehlo.reduce(%[[V23]] init: %[[CST]]) applies stablehlo.add across dimensions = [1] : (tensor<3x3xf64>, tensor<f64>) -> tensor<3xf64>
// JVP-NEXT:    return %[[V0]]#0, %[[V0]]#1, %[[V22]], %[[V24]] : tensor<3x3xf64>, tensor<3xf64>, tensor<3x3xf64>, tensor<3xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<5.000000e-01> : tensor<3x3xf64>
// VJP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3x3xf64>
// VJP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3x3xf64>
// VJP-NEXT:    %[[V0:.*]]:3 = stablehlo.custom_call @lapack_dsyevd_ffi(%arg0) {api_version = 4 : i32, backend_config = {mode = 86 : ui8, uplo = 76 : ui8}} : (tensor<3x3xf64>) -> (tensor<3x3xf64>, tensor<3xf64>, tensor<i32>)
// VJP-NEXT:    %[[V1:.*]] = stablehlo.broadcast_in_dim %arg2, dims = [0] : (tensor<3xf64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.iota dim = 0 : tensor<3xi32>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.broadcast_in_dim %[[V2]], dims = [1] : (tensor<3xi32>) -> tensor<3x3xi32>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.broadcast_in_dim %[[V2]], dims = [0] : (tensor<3xi32>) -> tensor<3x3xi32>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.compare EQ, %[[V4]], %[[V3]] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.select %[[V5]], %[[V1]], %[[CST_1]] : tensor<3x3xi1>, tensor<3x3xf64>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.dot_general %[[V0]]#0, %arg1, contracting_dims = [0] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V8:.*]] = stablehlo.broadcast_in_dim %[[V0]]#1, dims = [0] : (tensor<3xf64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V9:.*]] = stablehlo.broadcast_in_dim %[[V0]]#1, dims = [1] : (tensor<3xf64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V10:.*]] = stablehlo.subtract %[[V9]], %[[V8]] : tensor<3x3xf64>
// VJP-NEXT:    %[[V11:.*]] = stablehlo.compare EQ, %[[V10]], %[[CST_1]] : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xi1>
// VJP-NEXT:    %[[V12:.*]] = stablehlo.select %[[V11]], %[[CST_0]], %[[V10]] : tensor<3x3xi1>, tensor<3x3xf64>
// VJP-NEXT:    %[[V13:.*]] = stablehlo.divide %[[CST_0]], %[[V12]] : tensor<3x3xf64>
// VJP-NEXT:    %[[V14:.*]] = stablehlo.select %[[V11]], %[[CST_1]], %[[V13]] : tensor<3x3xi1>, tensor<3x3xf64>
// VJP-NEXT:    %[[V15:.*]] = stablehlo.multiply %[[V14]], %[[V7]] : tensor<3x3xf64>
// VJP-NEXT:    %[[V16:.*]] = stablehlo.add %[[V15]], %[[V6]] : tensor<3x3xf64>
// VJP-NEXT:    %[[V17:.*]] = stablehlo.transpose %[[V0]]#0, dims = [1, 0] : (tensor<3x3xf64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V18:.*]] = stablehlo.dot_general %[[V17]], %[[V16]], contracting_dims = [0] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V19:.*]] = stablehlo.dot_general %[[V18]], %[[V0]]#0, contracting_dims = [1] x [1], precision = [HIGHEST, HIGHEST] : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V20:.*]] = stablehlo.transpose %[[V19]], dims = [1, 0] : (tensor<3x3xf64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V21:.*]] = stablehlo.add %[[V19]], %[[V20]] : tensor<3x3xf64>
// VJP-NEXT:    %[[V22:.*]] = stablehlo.compare GE, %[[V4]], %[[V3]] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
// VJP-NEXT:    %[[V23:.*]] = stablehlo.select %[[V22]], %[[V21]], %[[CST_1]] : tensor<3x3xi1>, tensor<3x3xf64>
// VJP-NEXT:    %[[V24:.*]] = stablehlo.select %[[V5]], %[[CST]], %[[CST_0]] : tensor<3x3xi1>, tensor<3x3xf64>
// VJP-NEXT:    %[[V25:.*]] = stablehlo.multiply %[[V24]], %[[V23]] : tensor<3x3xf64>
// VJP-NEXT:    return %[[V0]]#0, %[[V0]]#1, %[[V25]] : tensor<3x3xf64>, tensor<3xf64>, tensor<3x3xf64>

func.func @main(%x: tensor<3x3xf64>) -> (tensor<3x3xf64>, tensor<3xf64>) {
  %0:3 = stablehlo.custom_call @lapack_dsyevd_ffi(%x) {api_version = 4 : i32, backend_config = {mode = 86 : ui8, uplo = 76 : ui8}} : (tensor<3x3xf64>) -> (tensor<3x3xf64>, tensor<3xf64>, tensor<i32>)
  return %0#0, %0#1 : tensor<3x3xf64>, tensor<3xf64>
}
