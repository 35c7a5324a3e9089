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
// JVP-NEXT:    %[[V42:.*]] = stablehlo.imag %[[V41]] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V43:.*]] = stablehlo.negate %[[V42]] : tensor<3x3xf64>
// JVP-NEXT:    %[[V44:.*]] = stablehlo.real %[[V41]] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V45:.*]] = stablehlo.complex %[[V44]], %[[V43]] : tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V46:.*]] = stablehlo.dot_general %[[V45]], %[[V40]], contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V47:.*]] = stablehlo.dot_general %[[V46]], %[[V39]], contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V48:.*]] = "stablehlo.triangular_solve"(%[[V39]], %[[V47]]) <{left_side = true, lower = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V49:.*]] = stablehlo.select %[[V17]], %[[V48]], %[[CST_4]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V50:.*]] = stablehlo.divide %[[V49]], %[[V18]] : tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V51:.*]] = stablehlo.dot_general %[[V39]], %[[V50]], contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V52:.*]] = "stablehlo.triangular_solve"(%[[V39]], %[[V51]]) <{left_side = false, lower = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V53:.*]] = stablehlo.select %[[V17]], %[[V52]], %[[CST_4]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V54:.*]] = stablehlo.transpose %[[V53]], dims = [1, 0] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V55:.*]] = stablehlo.imag %[[V54]] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V56:.*]] = stablehlo.negate %[[V55]] : tensor<3x3xf64>
// JVP-NEXT:    %[[V57:.*]] = stablehlo.real %[[V54]] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V58:.*]] = stablehlo.complex %[[V57]], %[[V56]] : tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V59:.*]] = stablehlo.subtract %[[V53]], %[[V58]] : tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V60:.*]] = stablehlo.dot_general %[[V59]], %[[V0]]#0, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V61:.*]] = stablehlo.dot_general %[[V0]]#0, %[[V59]], contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V62:.*]] = stablehlo.subtract %[[V61]], %[[V60]] : tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V63:.*]] = stablehlo.add %[[V46]], %[[V62]] : tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V64:.*]] = stablehlo.compare LE, %[[V3]], %[[V2]] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
// JVP-NEXT:    %[[V65:.*]] = stablehlo.select %[[V64]], %[[V63]], %[[CST_4]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V66:.*]] = stablehlo.dot_general %[[V0]]#1, %[[V59]], contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    return %[[V0]]#0, %[[V0]]#1, %[[V65]], %[[V66]] : tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3x3xf64>
// VJP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<3.0767402982137021E-15> : tensor<f64>
// VJP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[CST_2:.*]] = stablehlo.constant dense<(0x7FF8000000000000,0.000000e+00)> : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[CST_3:.*]] = stablehlo.constant dense<(1.000000e+00,0.000000e+00)> : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[CST_4:.*]] = stablehlo.constant dense<(0.000000e+00,0.000000e+00)> : tensor<complex<f64>>
// VJP-NEXT:    %[[CST_5:.*]] = stablehlo.constant dense<(0.000000e+00,0.000000e+00)> : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V0:.*]]:5 = stablehlo.custom_call @lapack_zgees_ffi(%arg0) {api_version = 4 : i32, backend_config = {mode = 86 : ui8, sort = 78 : ui8}} : (tensor<3x3xcomplex<f64>>) -> (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>, tensor<3xcomplex<f64>>, tensor<i32>, tensor<i32>)
// VJP-NEXT:    %[[V1:.*]] = stablehlo.imag %[[V0]]#1 : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.negate %[[V1]] : tensor<3x3xf64>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.real %[[V0]]#1 : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.complex %[[V3]], %[[V2]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.transpose %[[V0]]#0, dims = [1, 0] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.iota dim = 0 : tensor<3xi32>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.broadcast_in_dim %[[V6]], dims = [1] : (tensor<3xi32>) -> tensor<3x3xi32>
// VJP-NEXT:    %[[V8:.*]] = stablehlo.broadcast_in_dim %[[V6]], dims = [0] : (tensor<3xi32>) -> tensor<3x3xi32>
// VJP-NEXT:    %[[V9:.*]] = stablehlo.compare GT, %[[V8]], %[[V7]] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
// VJP-NEXT:    %[[V10:.*]] = stablehlo.select %[[V9]], %[[V5]], %[[CST_5]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V11:.*]] = stablehlo.compare EQ, %[[V8]], %[[V7]] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
// VJP-NEXT:    %[[V12:.*]] = stablehlo.convert %[[V11]] : (tensor<3x3xi1>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V13:.*]] = stablehlo.subtract %[[V12]], %[[V10]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V14:.*]] = stablehlo.reshape %[[V13]] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3x1xcomplex<f64>>
// VJP-NEXT:    %[[V15:.*]] = stablehlo.broadcast_in_dim %[[V6]], dims = [2] : (tensor<3xi32>) -> tensor<3x3x3xi32>
// VJP-NEXT:    %[[V16:.*]] = stablehlo.broadcast_in_dim %[[V6]], dims = [1] : (tensor<3xi32>) -> tensor<3x3x3xi32>
// VJP-NEXT:    %[[V17:.*]] = stablehlo.compare EQ, %[[V16]], %[[V15]] : (tensor<3x3x3xi32>, tensor<3x3x3xi32>) -> tensor<3x3x3xi1>
// VJP-NEXT:    %[[V18:.*]] = stablehlo.convert %[[V17]] : (tensor<3x3x3xi1>) -> tensor<3x3x3xcomplex<f64>>
// VJP-NEXT:    %[[V19:.*]] = stablehlo.select %[[V11]], %[[V0]]#0, %[[CST_5]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V20:.*]] = stablehlo.reduce(%[[V19]] init: %[[CST_4]]) applies stablehlo.add across dimensions = [1] : (tensor<3x3xcomplex<f64>>, tensor<complex<f64>>) -> tensor<3xcomplex<f64>>
// VJP-NEXT:    %[[V21:.*]] = stablehlo.broadcast_in_dim %[[V20]], dims = [0] : (tensor<3xcomplex<f64>>) -> tensor<3x3x3xcomplex<f64>>
// VJP-NEXT:    %[[V22:.*]] = stablehlo.multiply %[[V18]], %[[V21]] : tensor<3x3x3xcomplex<f64>>
// VJP-NEXT:    %[[V23:.*]] = stablehlo.broadcast_in_dim %[[V0]]#0, dims = [1, 2] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3x3xcomplex<f64>>
// VJP-NEXT:    %[[V24:.*]] = stablehlo.subtract %[[V23]], %[[V22]] : tensor<3x3x3xcomplex<f64>>
// VJP-NEXT:    %[[V25:.*]] = stablehlo.broadcast_in_dim %[[V6]], dims = [0] : (tensor<3xi32>) -> tensor<3x3x3xi32>
// VJP-NEXT:    %[[V26:.*]] = stablehlo.compare LT, %[[V15]], %[[V25]] : (tensor<3x3x3xi32>, tensor<3x3x3xi32>) -> tensor<3x3x3xi1>
// VJP-NEXT:    %[[V27:.*]] = stablehlo.compare LT, %[[V16]], %[[V25]] : (tensor<3x3x3xi32>, tensor<3x3x3xi32>) -> tensor<3x3x3xi1>
// VJP-NEXT:    %[[V28:.*]] = stablehlo.and %[[V27]], %[[V26]] : tensor<3x3x3xi1>
// VJP-NEXT:    %[[V29:.*]] = stablehlo.select %[[V28]], %[[V24]], %[[V18]] : tensor<3x3x3xi1>, tensor<3x3x3xcomplex<f64>>
// VJP-NEXT:    %[[V30:.*]] = "stablehlo.triangular_solve"(%[[V29]], %[[V14]]) <{left_side = true, lower = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<3x3x3xcomplex<f64>>, tensor<3x3x1xcomplex<f64>>) -> tensor<3x3x1xcomplex<f64>>
// VJP-NEXT:    %[[V31:.*]] = stablehlo.reshape %[[V30]] : (tensor<3x3x1xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V32:.*]] = stablehlo.transpose %[[V31]], dims = [1, 0] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V33:.*]] = stablehlo.imag %[[V32]] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V34:.*]] = stablehlo.negate %[[V33]] : tensor<3x3xf64>
// VJP-NEXT:    %[[V35:.*]] = stablehlo.real %[[V32]] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V36:.*]] = stablehlo.complex %[[V35]], %[[V34]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V37:.*]] = stablehlo.broadcast_in_dim %[[V20]], dims = [0] : (tensor<3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V38:.*]] = stablehlo.broadcast_in_dim %[[V20]], dims = [1] : (tensor<3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V39:.*]] = stablehlo.subtract %[[V38]], %[[V37]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V40:.*]] = stablehlo.abs %[[V20]] : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
// VJP-NEXT:    %[[V41:.*]] = stablehlo.reduce(%[[V40]] init: %[[CST_1]]) applies stablehlo.maximum across dimensions = [0] : (tensor<3xf64>, tensor<f64>) -> tensor<f64>
// VJP-NEXT:    %[[V42:.*]] = stablehlo.multiply %[[V41]], %[[CST_0]] : tensor<f64>
// VJP-NEXT:    %[[V43:.*]] = stablehlo.broadcast_in_dim %[[V42]], dims = [] : (tensor<f64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V44:.*]] = stablehlo.abs %[[V39]] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V45:.*]] = stablehlo.compare LE, %[[V44]], %[[V43]] : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xi1>
// VJP-NEXT:    %[[V46:.*]] = stablehlo.select %[[V45]], %[[CST_2]], %[[V39]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V47:.*]] = stablehlo.select %[[V9]], %[[V46]], %[[CST_3]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V48:.*]] = stablehlo.imag %[[V47]] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V49:.*]] = stablehlo.negate %[[V48]] : tensor<3x3xf64>
// VJP-NEXT:    %[[V50:.*]] = stablehlo.real %[[V47]] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V51:.*]] = stablehlo.complex %[[V50]], %[[V49]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V52:.*]] = stablehlo.compare LE, %[[V8]], %[[V7]] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
// VJP-NEXT:    %[[V53:.*]] = stablehlo.select %[[V52]], %arg1, %[[CST_5]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V54:.*]] = stablehlo.imag %[[V0]]#0 : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V55:.*]] = stablehlo.negate %[[V54]] : tensor<3x3xf64>
// VJP-NEXT:    %[[V56:.*]] = stablehlo.real %[[V0]]#0 : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V57:.*]] = stablehlo.complex %[[V56]], %[[V55]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V58:.*]] = stablehlo.dot_general %[[V57]], %[[V53]], contracting_dims = [0] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V59:.*]] = stablehlo.negate %[[V53]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V60:.*]] = stablehlo.dot_general %[[V59]], %[[V57]], contracting_dims = [1] x [1], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V61:.*]] = stablehlo.dot_general %[[V4]], %arg2, contracting_dims = [0] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V62:.*]] = stablehlo.add %[[V61]], %[[V60]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V63:.*]] = stablehlo.add %[[V62]], %[[V58]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V64:.*]] = stablehlo.negate %[[V63]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V65:.*]] = stablehlo.real %[[V64]] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V66:.*]] = stablehlo.complex %[[V65]], %[[CST]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V67:.*]] = stablehlo.imag %[[V64]] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V68:.*]] = stablehlo.negate %[[V67]] : tensor<3x3xf64>
// VJP-NEXT:    %[[V69:.*]] = stablehlo.complex %[[CST]], %[[V68]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V70:.*]] = stablehlo.add %[[V69]], %[[V66]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V71:.*]] = stablehlo.transpose %[[V70]], dims = [1, 0] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V72:.*]] = stablehlo.add %[[V63]], %[[V71]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V73:.*]] = stablehlo.select %[[V9]], %[[V72]], %[[CST_5]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V74:.*]] = "stablehlo.triangular_solve"(%[[V32]], %[[V73]]) <{left_side = false, lower = false, transpose_a = #stablehlo<transpose ADJOINT>, unit_diagonal = false}> : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V75:.*]] = stablehlo.dot_general %[[V36]], %[[V74]], contracting_dims = [0] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V76:.*]] = stablehlo.divide %[[V75]], %[[V51]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V77:.*]] = stablehlo.select %[[V9]], %[[V76]], %[[CST_5]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V78:.*]] = "stablehlo.triangular_solve"(%[[V32]], %[[V77]]) <{left_side = true, lower = false, transpose_a = #stablehlo<transpose ADJOINT>, unit_diagonal = false}> : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V79:.*]] = stablehlo.dot_general %[[V78]], %[[V36]], contracting_dims = [1] x [1], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V80:.*]] = stablehlo.add %[[V53]], %[[V79]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V81:.*]] = stablehlo.transpose %[[V0]]#1, dims = [1, 0] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V82:.*]] = stablehlo.dot_general %[[V81]], %[[V80]], contracting_dims = [0] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V83:.*]] = stablehlo.dot_general %[[V82]], %[[V4]], contracting_dims = [1] x [1], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    return %[[V0]]#0, %[[V0]]#1, %[[V83]] : tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>

func.func @main(%x: tensor<3x3xcomplex<f64>>) -> (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) {
  %0:5 = stablehlo.custom_call @lapack_zgees_ffi(%x) {api_version = 4 : i32, backend_config = {mode = 86 : ui8, sort = 78 : ui8}} : (tensor<3x3xcomplex<f64>>) -> (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>, tensor<3xcomplex<f64>>, tensor<i32>, tensor<i32>)
  return %0#0, %0#1 : tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>
}
