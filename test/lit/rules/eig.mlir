// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// The derivative of eigenvalues needs left and right eigenvectors: another call computes the missing ones.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<1.7976931348623157E+308> : tensor<3xf64>
// JVP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<1.618000e+00> : tensor<3x3xf64>
// JVP-NEXT:    %[[CST_2:.*]] = stablehlo.constant dense<2.2737367544323206E-13> : tensor<3xf64>
// JVP-NEXT:    %[[C:.*]] = stablehlo.constant dense<false> : tensor<i1>
// JVP-NEXT:    %[[CST_3:.*]] = stablehlo.constant dense<1.4901161193847656E-8> : tensor<f64>
// JVP-NEXT:    %[[CST_4:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// JVP-NEXT:    %[[CST_5:.*]] = stablehlo.constant dense<(0.000000e+00,0.000000e+00)> : tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[CST_6:.*]] = stablehlo.constant dense<(0.000000e+00,0.000000e+00)> : tensor<complex<f64>>
// JVP-NEXT:    %[[V0:.*]]:4 = stablehlo.custom_call @lapack_zgeev_ffi(%arg0) {api_version = 4 : i32, backend_config = {compute_left = 78 : ui8, compute_right = 86 : ui8}} : (tensor<3x3xcomplex<f64>>) -> (tensor<3xcomplex<f64>>, tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>, tensor<i32>)
// JVP-NEXT:    %[[V1:.*]]:4 = stablehlo.custom_call @lapack_zgeev_ffi(%arg0) {api_version = 4 : i32, backend_config = {compute_left = 86 : ui8, compute_right = 86 : ui8}} : (tensor<3x3xcomplex<f64>>) -> (tensor<3xcomplex<f64>>, tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>, tensor<i32>)
// JVP-NEXT:    %[[V2:.*]] = stablehlo.dot_general %arg1, %[[V1]]#2, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.transpose %[[V1]]#1, dims = [1, 0] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V4:.*]] = chlo.conj %[[V3]] : tensor<3x3xcomplex<f64>> -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V5:.*]] = stablehlo.dot_general %[[V4]], %[[V2]], contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V6:.*]] = stablehlo.dot_general %[[V4]], %[[V1]]#2, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V7:.*]] = stablehlo.abs %[[V1]]#0 : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
// JVP-NEXT:    %[[V8:.*]] = stablehlo.reduce(%[[V7]] init: %[[CST_4]]) applies stablehlo.maximum across dimensions = [0] : (tensor<3xf64>, tensor<f64>) -> tensor<f64>
// JVP-NEXT:    %[[V9:.*]] = stablehlo.multiply %[[V8]], %[[CST_3]] : tensor<f64>
// JVP-NEXT:    %[[V10:.*]] = stablehlo.broadcast_in_dim %[[V9]], dims = [] : (tensor<f64>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V11:.*]] = stablehlo.broadcast_in_dim %[[V1]]#0, dims = [0] : (tensor<3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V12:.*]] = stablehlo.broadcast_in_dim %[[V1]]#0, dims = [1] : (tensor<3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V13:.*]] = stablehlo.subtract %[[V12]], %[[V11]] : tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V14:.*]] = stablehlo.abs %[[V13]] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V15:.*]] = stablehlo.compare LE, %[[V14]], %[[V10]] : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xi1>
// JVP-NEXT:    %[[V16:.*]] = stablehlo.select %[[V15]], %[[V6]], %[[CST_5]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V17:.*]] = stablehlo.iota dim = 0 : tensor<3xi32>
// JVP-NEXT:    %[[V18:.*]] = stablehlo.broadcast_in_dim %[[V17]], dims = [1] : (tensor<3xi32>) -> tensor<3x3xi32>
// JVP-NEXT:    %[[V19:.*]] = stablehlo.broadcast_in_dim %[[V17]], dims = [0] : (tensor<3xi32>) -> tensor<3x3xi32>
// JVP-NEXT:    %[[V20:.*]] = stablehlo.compare EQ, %[[V19]], %[[V18]] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
// JVP-NEXT:    %[[V21:.*]] = stablehlo.convert %[[V20]] : (tensor<3x3xi1>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V22:.*]] = stablehlo.select %[[V20]], %[[V6]], %[[CST_5]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V23:.*]] = stablehlo.reduce(%[[V22]] init: %[[CST_6]]) applies stablehlo.add across dimensions = [1] : (tensor<3x3xcomplex<f64>>, tensor<complex<f64>>) -> tensor<3xcomplex<f64>>
// JVP-NEXT:    %[[V24:.*]] = stablehlo.abs %[[V23]] : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
// JVP-NEXT:    %[[V25:.*]] = stablehlo.compare LE, %[[V24]], %[[CST_2]] : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// JVP-NEXT:    %[[V26:.*]] = stablehlo.broadcast_in_dim %[[V25]], dims = [1] : (tensor<3xi1>) -> tensor<3x3xi1>
// JVP-NEXT:    %[[V27:.*]] = stablehlo.and %[[V15]], %[[V26]] : tensor<3x3xi1>
// JVP-NEXT:    %[[V28:.*]] = stablehlo.reduce(%[[V27]] init: %[[C]]) applies stablehlo.or across dimensions = [1] : (tensor<3x3xi1>, tensor<i1>) -> tensor<3xi1>
// JVP-NEXT:    %[[V29:.*]] = stablehlo.broadcast_in_dim %[[V28]], dims = [1] : (tensor<3xi1>) -> tensor<3x3xi1>
// JVP-NEXT:    %[[V30:.*]] = stablehlo.broadcast_in_dim %[[V28]], dims = [0] : (tensor<3xi1>) -> tensor<3x3xi1>
// JVP-NEXT:    %[[V31:.*]] = stablehlo.or %[[V30]], %[[V29]] : tensor<3x3xi1>
// JVP-NEXT:    %[[V32:.*]] = stablehlo.select %[[V31]], %[[V21]], %[[V16]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V33:.*]] = "stablehlo.triangular_solve"(%[[V32]], %[[V5]]) <{left_side = true, lower = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V34:.*]] = stablehlo.select %[[V20]], %[[V33]], %[[CST_5]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V35:.*]] = stablehlo.reduce(%[[V34]] init: %[[CST_6]]) applies stablehlo.add across dimensions = [1] : (tensor<3x3xcomplex<f64>>, tensor<complex<f64>>) -> tensor<3xcomplex<f64>>
// JVP-NEXT:    %[[V36:.*]] = stablehlo.iota dim = 0 : tensor<3xf64>
// JVP-NEXT:    %[[V37:.*]] = stablehlo.broadcast_in_dim %[[V36]], dims = [1] : (tensor<3xf64>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V38:.*]] = stablehlo.multiply %[[V37]], %[[CST_1]] : tensor<3x3xf64>
// JVP-NEXT:    %[[V39:.*]] = stablehlo.broadcast_in_dim %[[V36]], dims = [0] : (tensor<3xf64>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V40:.*]] = stablehlo.add %[[V39]], %[[V38]] : tensor<3x3xf64>
// JVP-NEXT:    %[[V41:.*]] = stablehlo.sine %[[V40]] : tensor<3x3xf64>
// JVP-NEXT:    %[[V42:.*]] = stablehlo.convert %[[V41]] : (tensor<3x3xf64>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V43:.*]] = stablehlo.add %[[V42]], %[[V1]]#2 : tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V44:.*]] = stablehlo.multiply %[[V43]], %arg1 : tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V45:.*]] = stablehlo.reduce(%[[V44]] init: %[[CST_6]]) applies stablehlo.add across dimensions = [0, 1] : (tensor<3x3xcomplex<f64>>, tensor<complex<f64>>) -> tensor<complex<f64>>
// JVP-NEXT:    %[[V46:.*]] = stablehlo.broadcast_in_dim %[[V45]], dims = [] : (tensor<complex<f64>>) -> tensor<3xcomplex<f64>>
// JVP-NEXT:    %[[V47:.*]] = stablehlo.select %[[V28]], %[[CST]], %[[CST_0]] : tensor<3xi1>, tensor<3xf64>
// JVP-NEXT:    %[[V48:.*]] = stablehlo.convert %[[V47]] : (tensor<3xf64>) -> tensor<3xcomplex<f64>>
// JVP-NEXT:    %[[V49:.*]] = stablehlo.multiply %[[V48]], %[[V46]] : tensor<3xcomplex<f64>>
// JVP-NEXT:    %[[V50:.*]] = stablehlo.multiply %[[V48]], %[[V49]] : tensor<3xcomplex<f64>>
// JVP-NEXT:    %[[V51:.*]] = stablehlo.select %[[V28]], %[[V50]], %[[V35]] : tensor<3xi1>, tensor<3xcomplex<f64>>
// JVP-NEXT:    return %[[V0]]#0, %[[V51]] : tensor<3xcomplex<f64>>, tensor<3xcomplex<f64>>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<1.618000e+00> : tensor<3x3xf64>
// VJP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<1.7976931348623157E+308> : tensor<3xf64>
// VJP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[CST_2:.*]] = stablehlo.constant dense<1.4901161193847656E-8> : tensor<f64>
// VJP-NEXT:    %[[CST_3:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[CST_4:.*]] = stablehlo.constant dense<(0.000000e+00,0.000000e+00)> : tensor<complex<f64>>
// VJP-NEXT:    %[[CST_5:.*]] = stablehlo.constant dense<2.2737367544323206E-13> : tensor<3xf64>
// VJP-NEXT:    %[[C:.*]] = stablehlo.constant dense<false> : tensor<i1>
// VJP-NEXT:    %[[CST_6:.*]] = stablehlo.constant dense<(0.000000e+00,0.000000e+00)> : tensor<3xcomplex<f64>>
// VJP-NEXT:    %[[CST_7:.*]] = stablehlo.constant dense<(0.000000e+00,0.000000e+00)> : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V0:.*]]:4 = stablehlo.custom_call @lapack_zgeev_ffi(%arg0) {api_version = 4 : i32, backend_config = {compute_left = 78 : ui8, compute_right = 86 : ui8}} : (tensor<3x3xcomplex<f64>>) -> (tensor<3xcomplex<f64>>, tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>, tensor<i32>)
// VJP-NEXT:    %[[V1:.*]]:4 = stablehlo.custom_call @lapack_zgeev_ffi(%arg0) {api_version = 4 : i32, backend_config = {compute_left = 86 : ui8, compute_right = 86 : ui8}} : (tensor<3x3xcomplex<f64>>) -> (tensor<3xcomplex<f64>>, tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>, tensor<i32>)
// VJP-NEXT:    %[[V2:.*]] = chlo.conj %[[V1]]#2 : tensor<3x3xcomplex<f64>> -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.transpose %[[V1]]#1, dims = [1, 0] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V4:.*]] = chlo.conj %[[V3]] : tensor<3x3xcomplex<f64>> -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.dot_general %[[V4]], %[[V1]]#2, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.iota dim = 0 : tensor<3xi32>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.broadcast_in_dim %[[V6]], dims = [1] : (tensor<3xi32>) -> tensor<3x3xi32>
// VJP-NEXT:    %[[V8:.*]] = stablehlo.broadcast_in_dim %[[V6]], dims = [0] : (tensor<3xi32>) -> tensor<3x3xi32>
// VJP-NEXT:    %[[V9:.*]] = stablehlo.compare EQ, %[[V8]], %[[V7]] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
// VJP-NEXT:    %[[V10:.*]] = stablehlo.select %[[V9]], %[[V5]], %[[CST_7]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V11:.*]] = stablehlo.reduce(%[[V10]] init: %[[CST_4]]) applies stablehlo.add across dimensions = [1] : (tensor<3x3xcomplex<f64>>, tensor<complex<f64>>) -> tensor<3xcomplex<f64>>
// VJP-NEXT:    %[[V12:.*]] = stablehlo.abs %[[V11]] : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
// VJP-NEXT:    %[[V13:.*]] = stablehlo.compare LE, %[[V12]], %[[CST_5]] : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// VJP-NEXT:    %[[V14:.*]] = stablehlo.broadcast_in_dim %[[V13]], dims = [1] : (tensor<3xi1>) -> tensor<3x3xi1>
// VJP-NEXT:    %[[V15:.*]] = stablehlo.abs %[[V1]]#0 : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
// VJP-NEXT:    %[[V16:.*]] = stablehlo.reduce(%[[V15]] init: %[[CST_3]]) applies stablehlo.maximum across dimensions = [0] : (tensor<3xf64>, tensor<f64>) -> tensor<f64>
// VJP-NEXT:    %[[V17:.*]] = stablehlo.multiply %[[V16]], %[[CST_2]] : tensor<f64>
// VJP-NEXT:    %[[V18:.*]] = stablehlo.broadcast_in_dim %[[V17]], dims = [] : (tensor<f64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V19:.*]] = stablehlo.broadcast_in_dim %[[V1]]#0, dims = [0] : (tensor<3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V20:.*]] = stablehlo.broadcast_in_dim %[[V1]]#0, dims = [1] : (tensor<3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V21:.*]] = stablehlo.subtract %[[V20]], %[[V19]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V22:.*]] = stablehlo.abs %[[V21]] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V23:.*]] = stablehlo.compare LE, %[[V22]], %[[V18]] : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xi1>
// VJP-NEXT:    %[[V24:.*]] = stablehlo.and %[[V23]], %[[V14]] : tensor<3x3xi1>
// VJP-NEXT:    %[[V25:.*]] = stablehlo.reduce(%[[V24]] init: %[[C]]) applies stablehlo.or across dimensions = [1] : (tensor<3x3xi1>, tensor<i1>) -> tensor<3xi1>
// VJP-NEXT:    %[[V26:.*]] = stablehlo.select %[[V25]], %[[CST_6]], %arg1 : tensor<3xi1>, tensor<3xcomplex<f64>>
// VJP-NEXT:    %[[V27:.*]] = stablehlo.broadcast_in_dim %[[V26]], dims = [0] : (tensor<3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V28:.*]] = stablehlo.select %[[V9]], %[[V27]], %[[CST_7]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V29:.*]] = stablehlo.select %[[V23]], %[[V5]], %[[CST_7]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V30:.*]] = stablehlo.convert %[[V9]] : (tensor<3x3xi1>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V31:.*]] = stablehlo.broadcast_in_dim %[[V25]], dims = [1] : (tensor<3xi1>) -> tensor<3x3xi1>
// VJP-NEXT:    %[[V32:.*]] = stablehlo.broadcast_in_dim %[[V25]], dims = [0] : (tensor<3xi1>) -> tensor<3x3xi1>
// VJP-NEXT:    %[[V33:.*]] = stablehlo.or %[[V32]], %[[V31]] : tensor<3x3xi1>
// VJP-NEXT:    %[[V34:.*]] = stablehlo.select %[[V33]], %[[V30]], %[[V29]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V35:.*]] = "stablehlo.triangular_solve"(%[[V34]], %[[V28]]) <{left_side = true, lower = false, transpose_a = #stablehlo<transpose ADJOINT>, unit_diagonal = false}> : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V36:.*]] = stablehlo.dot_general %[[V3]], %[[V35]], contracting_dims = [0] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V37:.*]] = stablehlo.dot_general %[[V36]], %[[V2]], contracting_dims = [1] x [1], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V38:.*]] = stablehlo.select %[[V25]], %arg1, %[[CST_6]] : tensor<3xi1>, tensor<3xcomplex<f64>>
// VJP-NEXT:    %[[V39:.*]] = stablehlo.select %[[V25]], %[[CST_0]], %[[CST_1]] : tensor<3xi1>, tensor<3xf64>
// VJP-NEXT:    %[[V40:.*]] = stablehlo.convert %[[V39]] : (tensor<3xf64>) -> tensor<3xcomplex<f64>>
// VJP-NEXT:    %[[V41:.*]] = chlo.conj %[[V40]] : tensor<3xcomplex<f64>> -> tensor<3xcomplex<f64>>
// VJP-NEXT:    %[[V42:.*]] = stablehlo.multiply %[[V41]], %[[V38]] : tensor<3xcomplex<f64>>
// VJP-NEXT:    %[[V43:.*]] = stablehlo.multiply %[[V41]], %[[V42]] : tensor<3xcomplex<f64>>
// VJP-NEXT:    %[[V44:.*]] = stablehlo.reduce(%[[V43]] init: %[[CST_4]]) applies stablehlo.add across dimensions = [0] : (tensor<3xcomplex<f64>>, tensor<complex<f64>>) -> tensor<complex<f64>>
// VJP-NEXT:    %[[V45:.*]] = stablehlo.broadcast_in_dim %[[V44]], dims = [] : (tensor<complex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V46:.*]] = stablehlo.iota dim = 0 : tensor<3xf64>
// VJP-NEXT:    %[[V47:.*]] = stablehlo.broadcast_in_dim %[[V46]], dims = [1] : (tensor<3xf64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V48:.*]] = stablehlo.multiply %[[V47]], %[[CST]] : tensor<3x3xf64>
// VJP-NEXT:    %[[V49:.*]] = stablehlo.broadcast_in_dim %[[V46]], dims = [0] : (tensor<3xf64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V50:.*]] = stablehlo.add %[[V49]], %[[V48]] : tensor<3x3xf64>
// VJP-NEXT:    %[[V51:.*]] = stablehlo.sine %[[V50]] : tensor<3x3xf64>
// VJP-NEXT:    %[[V52:.*]] = stablehlo.convert %[[V51]] : (tensor<3x3xf64>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V53:.*]] = stablehlo.add %[[V52]], %[[V1]]#2 : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V54:.*]] = chlo.conj %[[V53]] : tensor<3x3xcomplex<f64>> -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V55:.*]] = stablehlo.multiply %[[V54]], %[[V45]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V56:.*]] = stablehlo.add %[[V55]], %[[V37]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    return %[[V0]]#0, %[[V56]] : tensor<3xcomplex<f64>>, tensor<3x3xcomplex<f64>>

func.func @main(%x: tensor<3x3xcomplex<f64>>) -> (tensor<3xcomplex<f64>>) {
  %0:4 = stablehlo.custom_call @lapack_zgeev_ffi(%x) {api_version = 4 : i32, backend_config = {compute_left = 78 : ui8, compute_right = 86 : ui8}} : (tensor<3x3xcomplex<f64>>) -> (tensor<3xcomplex<f64>>, tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>, tensor<i32>)
  return %0#0 : tensor<3xcomplex<f64>>
}
