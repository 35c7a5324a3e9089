// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// One solve of three systems gives the eigenvectors of the triangular form; in their basis, the equations are quotients.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<3.0767402982137021E-15> : tensor<f64>
// JVP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// JVP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<(0x7FF8000000000000,0.000000e+00)> : tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[CST_2:.*]] = stablehlo.constant dense<(0.000000e+00,0.000000e+00)> : tensor<complex<f64>>
// JVP-NEXT:    %[[CST_3:.*]] = stablehlo.constant dense<(1.000000e+00,0.000000e+00)> : tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[CST_4:.*]] = stablehlo.constant dense<(0.000000e+00,0.000000e+00)> : tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V0:.*]]:5 = stablehlo.custom_call @lapack_zgees_ffi(%arg0) {api_version = 4 : i32, backend_config = {mode = 86 : ui8, sort = 78 : ui8}} : (tensor<3x3xcomplex<f64>>) -> (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>, tensor<3xcomplex<f64>>, tensor<i32>, tensor<i32>)
// JVP-NEXT:    %[[V1:.*]] = stablehlo.iota dim = 0 : tensor<3xi32>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.broadcast_in_dim %[[V1]], dims = [1] : (tensor<3xi32>) -> tensor<3x3xi32>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.broadcast_in_dim %[[V1]], dims = [0] : (tensor<3xi32>) -> tensor<3x3xi32>
// JVP-NEXT:    %[[V4:.*]] = stablehlo.compare EQ, %[[V3]], %[[V2]] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
// JVP-NEXT:    %[[V5:.*]] = stablehlo.select %[[V4]], %[[V0]]#0, %[[CST_4]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V6:.*]] = stablehlo.reduce(%[[V5]] init: %[[CST_2]]) applies stablehlo.add across dimensions = [1] : (tensor<3x3xcomplex<f64>>, tensor<complex<f64>>) -> tensor<3xcomplex<f64>>
// JVP-NEXT:    %[[V7:.*]] = stablehlo.broadcast_in_dim %[[V6]], dims = [0] : (tensor<3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V8:.*]] = stablehlo.broadcast_in_dim %[[V6]], dims = [1] : (tensor<3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V9:.*]] = stablehlo.subtract %[[V8]], %[[V7]] : tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V10:.*]] = stablehlo.abs %[[V6]] : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
// JVP-NEXT:    %[[V11:.*]] = stablehlo.reduce(%[[V10]] init: %[[CST_0]]) applies stablehlo.maximum across dimensions = [0] : (tensor<3xf64>, tensor<f64>) -> tensor<f64>
// JVP-NEXT:    %[[V12:.*]] = stablehlo.multiply %[[V11]], %[[CST]] : tensor<f64>
// JVP-NEXT:    %[[V13:.*]] = stablehlo.broadcast_in_dim %[[V12]], dims = [] : (tensor<f64>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V14:.*]] = stablehlo.abs %[[V9]] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V15:.*]] = stablehlo.compare LE, %[[V14]], %[[V13]] : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xi1>
// JVP-NEXT:    %[[V16:.*]] = stablehlo.select %[[V15]], %[[CST_1]], %[[V9]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V17:.*]] = stablehlo.compare GT, %[[V3]], %[[V2]] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
// JVP-NEXT:    %[[V18:.*]] = stablehlo.select %[[V17]], %[[V16]], %[[CST_3]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V19:.*]] = stablehlo.transpose %[[V0]]#0, dims = [1, 0] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V20:.*]] = stablehlo.select %[[V17]], %[[V19]], %[[CST_4]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V21:.*]] = stablehlo.convert %[[V4]] : (tensor<3x3xi1>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V22:.*]] = stablehlo.subtract %[[V21]], %[[V20]] : tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V23:.*]] = stablehlo.reshape %[[V22]] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3x1xcomplex<f64>>
// JVP-NEXT:    %[[V24:.*]] = stablehlo.broadcast_in_dim %[[V1]], dims = [2] : (tensor<3xi32>) -> tensor<3x3x3xi32>
// JVP-NEXT:    %[[V25:.*]] = stablehlo.broadcast_in_dim %[[V1]], dims = [1] : (tensor<3xi32>) -> tensor<3x3x3xi32>
// JVP-NEXT:    %[[V26:.*]] = stablehlo.compare EQ, %[[V25]], %[[V24]] : (tensor<3x3x3xi32>, tensor<3x3x3xi32>) -> tensor<3x3x3xi1>
// JVP-NEXT:    %[[V27:.*]] = stablehlo.convert %[[V26]] : (tensor<3x3x3xi1>) -> tensor<3x3x3xcomplex<f64>>
// JVP-NEXT:    %[[V28:.*]] = stablehlo.broadcast_in_dim %[[V6]], dims = [0] : (tensor<3xcomplex<f64>>) -> tensor<3x3x3xcomplex<f64>>
// JVP-NEXT:    %[[V29:.*]] = stablehlo.multiply %[[V27]], %[[V28]] : tensor<3x3x3xcomplex<f64>>
// JVP-NEXT:    %[[V30:.*]] = stablehlo.broadcast_in_dim %[[V0]]#0, dims = [1, 2] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3x3xcomplex<f64>>
// JVP-NEXT:    %[[V31:.*]] = stablehlo.subtract %[[V30]], %[[V29]] : tensor<3x3x3xcomplex<f64>>
// JVP-NEXT:    %[[V32:.*]] = stablehlo.broadcast_in_dim %[[V1]], dims = [0] : (tensor<3xi32>) -> tensor<3x3x3xi32>
// JVP-NEXT:    %[[V33:.*]] = stablehlo.compare LT, %[[V24]], %[[V32]] : (tensor<3x3x3xi32>, tensor<3x3x3xi32>) -> tensor<3x3x3xi1>
// JVP-NEXT:    %[[V34:.*]] = stablehlo.compare LT, %[[V25]], %[[V32]] : (tensor<3x3x3xi32>, tensor<3x3x3xi32>) -> tensor<3x3x3xi1>
// JVP-NEXT:    %[[V35:.*]] = stablehlo.and %[[V34]], %[[V33]] : tensor<3x3x3xi1>
// JVP-NEXT:    %[[V36:.*]] = stablehlo.select %[[V35]], %[[V31]], %[[V27]] : tensor<3x3x3xi1>, tensor<3x3x3xcomplex<f64>>
// JVP-NEXT:    %[[V37:.*]] = "stablehlo.triangular_solve"(%[[V36]], %[[V23]]) <{left_side = true, lower = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<3x3x3xcomplex<f64>>, tensor<3x3x1xcomplex<f64>>) -> tensor<3x3x1xcomplex<f64>>
// JVP-NEXT:    %[[V38:.*]] = stablehlo.reshape %[[V37]] : (tensor<3x3x1xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V39:.*]] = stablehlo.transpose %[[V38]], dims = [1, 0] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V40:.*]] = stablehlo.dot_general %arg1, %[[V0]]#1, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V41:.*]] = stablehlo.transpose %[[V0]]#1, dims = [1, 0] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V42:.*]] = chlo.conj %[[V41]] : tensor<3x3xcomplex<f64>> -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V43:.*]] = stablehlo.dot_general %[[V42]], %[[V40]], contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V44:.*]] = stablehlo.dot_general %[[V43]], %[[V39]], contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V45:.*]] = "stablehlo.triangular_solve"(%[[V39]], %[[V44]]) <{left_side = true, lower = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V46:.*]] = stablehlo.select %[[V17]], %[[V45]], %[[CST_4]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V47:.*]] = stablehlo.divide %[[V46]], %[[V18]] : tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V48:.*]] = stablehlo.dot_general %[[V39]], %[[V47]], contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V49:.*]] = "stablehlo.triangular_solve"(%[[V39]], %[[V48]]) <{left_side = false, lower = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V50:.*]] = stablehlo.select %[[V17]], %[[V49]], %[[CST_4]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V51:.*]] = stablehlo.transpose %[[V50]], dims = [1, 0] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V52:.*]] = chlo.conj %[[V51]] : tensor<3x3xcomplex<f64>> -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V53:.*]] = stablehlo.subtract %[[V50]], %[[V52]] : tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V54:.*]] = stablehlo.dot_general %[[V53]], %[[V0]]#0, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V55:.*]] = stablehlo.dot_general %[[V0]]#0, %[[V53]], contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V56:.*]] = stablehlo.subtract %[[V55]], %[[V54]] : tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V57:.*]] = stablehlo.add %[[V43]], %[[V56]] : tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V58:.*]] = stablehlo.compare LE, %[[V3]], %[[V2]] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
// JVP-NEXT:    %[[V59:.*]] = stablehlo.select %[[V58]], %[[V57]], %[[CST_4]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V60:.*]] = stablehlo.dot_general %[[V0]]#1, %[[V53]], contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    return %[[V0]]#0, %[[V0]]#1, %[[V59]], %[[V60]] : tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<3.0767402982137021E-15> : tensor<f64>
// VJP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<(0x7FF8000000000000,0.000000e+00)> : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[CST_2:.*]] = stablehlo.constant dense<(1.000000e+00,0.000000e+00)> : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[CST_3:.*]] = stablehlo.constant dense<(0.000000e+00,0.000000e+00)> : tensor<complex<f64>>
// VJP-NEXT:    %[[CST_4:.*]] = stablehlo.constant dense<(0.000000e+00,0.000000e+00)> : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V0:.*]]:5 = stablehlo.custom_call @lapack_zgees_ffi(%arg0) {api_version = 4 : i32, backend_config = {mode = 86 : ui8, sort = 78 : ui8}} : (tensor<3x3xcomplex<f64>>) -> (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>, tensor<3xcomplex<f64>>, tensor<i32>, tensor<i32>)
// VJP-NEXT:    %[[V1:.*]] = chlo.conj %[[V0]]#1 : tensor<3x3xcomplex<f64>> -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.transpose %[[V0]]#0, dims = [1, 0] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.iota dim = 0 : tensor<3xi32>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.broadcast_in_dim %[[V3]], dims = [1] : (tensor<3xi32>) -> tensor<3x3xi32>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.broadcast_in_dim %[[V3]], dims = [0] : (tensor<3xi32>) -> tensor<3x3xi32>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.compare GT, %[[V5]], %[[V4]] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.select %[[V6]], %[[V2]], %[[CST_4]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V8:.*]] = stablehlo.compare EQ, %[[V5]], %[[V4]] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
// VJP-NEXT:    %[[V9:.*]] = stablehlo.convert %[[V8]] : (tensor<3x3xi1>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V10:.*]] = stablehlo.subtract %[[V9]], %[[V7]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V11:.*]] = stablehlo.reshape %[[V10]] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3x1xcomplex<f64>>
// VJP-NEXT:    %[[V12:.*]] = stablehlo.broadcast_in_dim %[[V3]], dims = [2] : (tensor<3xi32>) -> tensor<3x3x3xi32>
// VJP-NEXT:    %[[V13:.*]] = stablehlo.broadcast_in_dim %[[V3]], dims = [1] : (tensor<3xi32>) -> tensor<3x3x3xi32>
// VJP-NEXT:    %[[V14:.*]] = stablehlo.compare EQ, %[[V13]], %[[V12]] : (tensor<3x3x3xi32>, tensor<3x3x3xi32>) -> tensor<3x3x3xi1>
// VJP-NEXT:    %[[V15:.*]] = stablehlo.convert %[[V14]] : (tensor<3x3x3xi1>) -> tensor<3x3x3xcomplex<f64>>
// VJP-NEXT:    %[[V16:.*]] = stablehlo.select %[[V8]], %[[V0]]#0, %[[CST_4]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V17:.*]] = stablehlo.reduce(%[[V16]] init: %[[CST_3]]) applies stablehlo.add across dimensions = [1] : (tensor<3x3xcomplex<f64>>, tensor<complex<f64>>) -> tensor<3xcomplex<f64>>
// VJP-NEXT:    %[[V18:.*]] = stablehlo.broadcast_in_dim %[[V17]], dims = [0] : (tensor<3xcomplex<f64>>) -> tensor<3x3x3xcomplex<f64>>
// VJP-NEXT:    %[[V19:.*]] = stablehlo.multiply %[[V15]], %[[V18]] : tensor<3x3x3xcomplex<f64>>
// VJP-NEXT:    %[[V20:.*]] = stablehlo.broadcast_in_dim %[[V0]]#0, dims = [1, 2] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3x3xcomplex<f64>>
// VJP-NEXT:    %[[V21:.*]] = stablehlo.subtract %[[V20]], %[[V19]] : tensor<3x3x3xcomplex<f64>>
// VJP-NEXT:    %[[V22:.*]] = stablehlo.broadcast_in_dim %[[V3]], dims = [0] : (tensor<3xi32>) -> tensor<3x3x3xi32>
// VJP-NEXT:    %[[V23:.*]] = stablehlo.compare LT, %[[V12]], %[[V22]] : (tensor<3x3x3xi32>, tensor<3x3x3xi32>) -> tensor<3x3x3xi1>
// VJP-NEXT:    %[[V24:.*]] = stablehlo.compare LT, %[[V13]], %[[V22]] : (tensor<3x3x3xi32>, tensor<3x3x3xi32>) -> tensor<3x3x3xi1>
// VJP-NEXT:    %[[V25:.*]] = stablehlo.and %[[V24]], %[[V23]] : tensor<3x3x3xi1>
// VJP-NEXT:    %[[V26:.*]] = stablehlo.select %[[V25]], %[[V21]], %[[V15]] : tensor<3x3x3xi1>, tensor<3x3x3xcomplex<f64>>
// VJP-NEXT:    %[[V27:.*]] = "stablehlo.triangular_solve"(%[[V26]], %[[V11]]) <{left_side = true, lower = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<3x3x3xcomplex<f64>>, tensor<3x3x1xcomplex<f64>>) -> tensor<3x3x1xcomplex<f64>>
// VJP-NEXT:    %[[V28:.*]] = stablehlo.reshape %[[V27]] : (tensor<3x3x1xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V29:.*]] = stablehlo.transpose %[[V28]], dims = [1, 0] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V30:.*]] = chlo.conj %[[V29]] : tensor<3x3xcomplex<f64>> -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V31:.*]] = stablehlo.broadcast_in_dim %[[V17]], dims = [0] : (tensor<3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V32:.*]] = stablehlo.broadcast_in_dim %[[V17]], dims = [1] : (tensor<3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V33:.*]] = stablehlo.subtract %[[V32]], %[[V31]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V34:.*]] = stablehlo.abs %[[V17]] : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
// VJP-NEXT:    %[[V35:.*]] = stablehlo.reduce(%[[V34]] init: %[[CST_0]]) applies stablehlo.maximum across dimensions = [0] : (tensor<3xf64>, tensor<f64>) -> tensor<f64>
// VJP-NEXT:    %[[V36:.*]] = stablehlo.multiply %[[V35]], %[[CST]] : tensor<f64>
// VJP-NEXT:    %[[V37:.*]] = stablehlo.broadcast_in_dim %[[V36]], dims = [] : (tensor<f64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V38:.*]] = stablehlo.abs %[[V33]] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V39:.*]] = stablehlo.compare LE, %[[V38]], %[[V37]] : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xi1>
// VJP-NEXT:    %[[V40:.*]] = stablehlo.select %[[V39]], %[[CST_1]], %[[V33]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V41:.*]] = stablehlo.select %[[V6]], %[[V40]], %[[CST_2]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V42:.*]] = chlo.conj %[[V41]] : tensor<3x3xcomplex<f64>> -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V43:.*]] = stablehlo.compare LE, %[[V5]], %[[V4]] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
// VJP-NEXT:    %[[V44:.*]] = stablehlo.select %[[V43]], %arg1, %[[CST_4]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V45:.*]] = chlo.conj %[[V0]]#0 : tensor<3x3xcomplex<f64>> -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V46:.*]] = stablehlo.dot_general %[[V45]], %[[V44]], contracting_dims = [0] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V47:.*]] = stablehlo.negate %[[V44]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V48:.*]] = stablehlo.dot_general %[[V47]], %[[V45]], contracting_dims = [1] x [1], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V49:.*]] = stablehlo.dot_general %[[V1]], %arg2, contracting_dims = [0] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V50:.*]] = stablehlo.add %[[V49]], %[[V48]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V51:.*]] = stablehlo.add %[[V50]], %[[V46]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V52:.*]] = stablehlo.negate %[[V51]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V53:.*]] = chlo.conj %[[V52]] : tensor<3x3xcomplex<f64>> -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V54:.*]] = stablehlo.transpose %[[V53]], dims = [1, 0] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V55:.*]] = stablehlo.add %[[V51]], %[[V54]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V56:.*]] = stablehlo.select %[[V6]], %[[V55]], %[[CST_4]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V57:.*]] = "stablehlo.triangular_solve"(%[[V29]], %[[V56]]) <{left_side = false, lower = false, transpose_a = #stablehlo<transpose ADJOINT>, unit_diagonal = false}> : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V58:.*]] = stablehlo.dot_general %[[V30]], %[[V57]], contracting_dims = [0] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V59:.*]] = stablehlo.divide %[[V58]], %[[V42]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V60:.*]] = stablehlo.select %[[V6]], %[[V59]], %[[CST_4]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V61:.*]] = "stablehlo.triangular_solve"(%[[V29]], %[[V60]]) <{left_side = true, lower = false, transpose_a = #stablehlo<transpose ADJOINT>, unit_diagonal = false}> : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V62:.*]] = stablehlo.dot_general %[[V61]], %[[V30]], contracting_dims = [1] x [1], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V63:.*]] = stablehlo.add %[[V44]], %[[V62]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V64:.*]] = stablehlo.transpose %[[V0]]#1, dims = [1, 0] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V65:.*]] = stablehlo.dot_general %[[V64]], %[[V63]], contracting_dims = [0] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V66:.*]] = stablehlo.dot_general %[[V65]], %[[V1]], contracting_dims = [1] x [1], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    return %[[V0]]#0, %[[V0]]#1, %[[V66]] : tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>

func.func @main(%x: tensor<3x3xcomplex<f64>>) -> (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) {
  %0:5 = stablehlo.custom_call @lapack_zgees_ffi(%x) {api_version = 4 : i32, backend_config = {mode = 86 : ui8, sort = 78 : ui8}} : (tensor<3x3xcomplex<f64>>) -> (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>, tensor<3xcomplex<f64>>, tensor<i32>, tensor<i32>)
  return %0#0, %0#1 : tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>
}
