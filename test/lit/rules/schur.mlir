// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// One solve of three systems gives the eigenvectors of the triangular form; in their basis, the equations are quotients.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<(0.000000e+00,0.000000e+00)> : tensor<complex<f64>>
// JVP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<(1.000000e+00,0.000000e+00)> : tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<(0.000000e+00,0.000000e+00)> : tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V0:.*]]:5 = stablehlo.custom_call @lapack_zgees_ffi(%arg0) {api_version = 4 : i32, backend_config = {mode = 86 : ui8, sort = 78 : ui8}} : (tensor<3x3xcomplex<f64>>) -> (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>, tensor<3xcomplex<f64>>, tensor<i32>, tensor<i32>)
// JVP-NEXT:    %[[V1:.*]] = stablehlo.iota dim = 0 : tensor<3xi32>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.broadcast_in_dim %[[V1]], dims = [1] : (tensor<3xi32>) -> tensor<3x3xi32>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.broadcast_in_dim %[[V1]], dims = [0] : (tensor<3xi32>) -> tensor<3x3xi32>
// JVP-NEXT:    %[[V4:.*]] = stablehlo.compare EQ, %[[V3]], %[[V2]] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
// JVP-NEXT:    %[[V5:.*]] = stablehlo.select %[[V4]], %[[V0]]#0, %[[CST_1]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V6:.*]] = stablehlo.reduce(%[[V5]] init: %[[CST]]) applies stablehlo.add across dimensions = [1] : (tensor<3x3xcomplex<f64>>, tensor<complex<f64>>) -> tensor<3xcomplex<f64>>
// JVP-NEXT:    %[[V7:.*]] = stablehlo.broadcast_in_dim %[[V6]], dims = [0] : (tensor<3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V8:.*]] = stablehlo.broadcast_in_dim %[[V6]], dims = [1] : (tensor<3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V9:.*]] = stablehlo.subtract %[[V8]], %[[V7]] : tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V10:.*]] = stablehlo.compare GT, %[[V3]], %[[V2]] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
// JVP-NEXT:    %[[V11:.*]] = stablehlo.select %[[V10]], %[[V9]], %[[CST_0]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V12:.*]] = stablehlo.transpose %[[V0]]#0, dims = [1, 0] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V13:.*]] = stablehlo.select %[[V10]], %[[V12]], %[[CST_1]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V14:.*]] = stablehlo.convert %[[V4]] : (tensor<3x3xi1>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V15:.*]] = stablehlo.subtract %[[V14]], %[[V13]] : tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V16:.*]] = stablehlo.reshape %[[V15]] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3x1xcomplex<f64>>
// JVP-NEXT:    %[[V17:.*]] = stablehlo.broadcast_in_dim %[[V1]], dims = [2] : (tensor<3xi32>) -> tensor<3x3x3xi32>
// JVP-NEXT:    %[[V18:.*]] = stablehlo.broadcast_in_dim %[[V1]], dims = [1] : (tensor<3xi32>) -> tensor<3x3x3xi32>
// JVP-NEXT:    %[[V19:.*]] = stablehlo.compare EQ, %[[V18]], %[[V17]] : (tensor<3x3x3xi32>, tensor<3x3x3xi32>) -> tensor<3x3x3xi1>
// JVP-NEXT:    %[[V20:.*]] = stablehlo.convert %[[V19]] : (tensor<3x3x3xi1>) -> tensor<3x3x3xcomplex<f64>>
// JVP-NEXT:    %[[V21:.*]] = stablehlo.broadcast_in_dim %[[V6]], dims = [0] : (tensor<3xcomplex<f64>>) -> tensor<3x3x3xcomplex<f64>>
// JVP-NEXT:    %[[V22:.*]] = stablehlo.multiply %[[V20]], %[[V21]] : tensor<3x3x3xcomplex<f64>>
// JVP-NEXT:    %[[V23:.*]] = stablehlo.broadcast_in_dim %[[V0]]#0, dims = [1, 2] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3x3xcomplex<f64>>
// JVP-NEXT:    %[[V24:.*]] = stablehlo.subtract %[[V23]], %[[V22]] : tensor<3x3x3xcomplex<f64>>
// JVP-NEXT:    %[[V25:.*]] = stablehlo.broadcast_in_dim %[[V1]], dims = [0] : (tensor<3xi32>) -> tensor<3x3x3xi32>
// JVP-NEXT:    %[[V26:.*]] = stablehlo.compare LT, %[[V17]], %[[V25]] : (tensor<3x3x3xi32>, tensor<3x3x3xi32>) -> tensor<3x3x3xi1>
// JVP-NEXT:    %[[V27:.*]] = stablehlo.compare LT, %[[V18]], %[[V25]] : (tensor<3x3x3xi32>, tensor<3x3x3xi32>) -> tensor<3x3x3xi1>
// JVP-NEXT:    %[[V28:.*]] = stablehlo.and %[[V27]], %[[V26]] : tensor<3x3x3xi1>
// JVP-NEXT:    %[[V29:.*]] = stablehlo.select %[[V28]], %[[V24]], %[[V20]] : tensor<3x3x3xi1>, tensor<3x3x3xcomplex<f64>>
// JVP-NEXT:    %[[V30:.*]] = "stablehlo.triangular_solve"(%[[V29]], %[[V16]]) <{left_side = true, lower = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<3x3x3xcomplex<f64>>, tensor<3x3x1xcomplex<f64>>) -> tensor<3x3x1xcomplex<f64>>
// JVP-NEXT:    %[[V31:.*]] = stablehlo.reshape %[[V30]] : (tensor<3x3x1xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V32:.*]] = stablehlo.transpose %[[V31]], dims = [1, 0] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V33:.*]] = stablehlo.dot_general %arg1, %[[V0]]#1, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V34:.*]] = stablehlo.transpose %[[V0]]#1, dims = [1, 0] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V35:.*]] = stablehlo.imag %[[V34]] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V36:.*]] = stablehlo.negate %[[V35]] : tensor<3x3xf64>
// JVP-NEXT:    %[[V37:.*]] = stablehlo.real %[[V34]] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V38:.*]] = stablehlo.complex %[[V37]], %[[V36]] : tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V39:.*]] = stablehlo.dot_general %[[V38]], %[[V33]], contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V40:.*]] = stablehlo.dot_general %[[V39]], %[[V32]], contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V41:.*]] = "stablehlo.triangular_solve"(%[[V32]], %[[V40]]) <{left_side = true, lower = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V42:.*]] = stablehlo.select %[[V10]], %[[V41]], %[[CST_1]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V43:.*]] = stablehlo.divide %[[V42]], %[[V11]] : tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V44:.*]] = stablehlo.dot_general %[[V32]], %[[V43]], contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V45:.*]] = "stablehlo.triangular_solve"(%[[V32]], %[[V44]]) <{left_side = false, lower = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V46:.*]] = stablehlo.select %[[V10]], %[[V45]], %[[CST_1]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V47:.*]] = stablehlo.transpose %[[V46]], dims = [1, 0] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V48:.*]] = stablehlo.imag %[[V47]] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V49:.*]] = stablehlo.negate %[[V48]] : tensor<3x3xf64>
// JVP-NEXT:    %[[V50:.*]] = stablehlo.real %[[V47]] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V51:.*]] = stablehlo.complex %[[V50]], %[[V49]] : tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V52:.*]] = stablehlo.subtract %[[V46]], %[[V51]] : tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V53:.*]] = stablehlo.dot_general %[[V52]], %[[V0]]#0, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V54:.*]] = stablehlo.dot_general %[[V0]]#0, %[[V52]], contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V55:.*]] = stablehlo.subtract %[[V54]], %[[V53]] : tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V56:.*]] = stablehlo.add %[[V39]], %[[V55]] : tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V57:.*]] = stablehlo.compare LE, %[[V3]], %[[V2]] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
// JVP-NEXT:    %[[V58:.*]] = stablehlo.select %[[V57]], %[[V56]], %[[CST_1]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V59:.*]] = stablehlo.dot_general %[[V0]]#1, %[[V52]], contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    return %[[V0]]#0, %[[V0]]#1, %[[V58]], %[[V59]] : tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3x3xf64>
// VJP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<(1.000000e+00,0.000000e+00)> : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<(0.000000e+00,0.000000e+00)> : tensor<complex<f64>>
// VJP-NEXT:    %[[CST_2:.*]] = stablehlo.constant dense<(0.000000e+00,0.000000e+00)> : tensor<3x3xcomplex<f64>>
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
// VJP-NEXT:    %[[V10:.*]] = stablehlo.select %[[V9]], %[[V5]], %[[CST_2]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V11:.*]] = stablehlo.compare EQ, %[[V8]], %[[V7]] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
// VJP-NEXT:    %[[V12:.*]] = stablehlo.convert %[[V11]] : (tensor<3x3xi1>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V13:.*]] = stablehlo.subtract %[[V12]], %[[V10]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V14:.*]] = stablehlo.reshape %[[V13]] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3x1xcomplex<f64>>
// VJP-NEXT:    %[[V15:.*]] = stablehlo.broadcast_in_dim %[[V6]], dims = [2] : (tensor<3xi32>) -> tensor<3x3x3xi32>
// VJP-NEXT:    %[[V16:.*]] = stablehlo.broadcast_in_dim %[[V6]], dims = [1] : (tensor<3xi32>) -> tensor<3x3x3xi32>
// VJP-NEXT:    %[[V17:.*]] = stablehlo.compare EQ, %[[V16]], %[[V15]] : (tensor<3x3x3xi32>, tensor<3x3x3xi32>) -> tensor<3x3x3xi1>
// VJP-NEXT:    %[[V18:.*]] = stablehlo.convert %[[V17]] : (tensor<3x3x3xi1>) -> tensor<3x3x3xcomplex<f64>>
// VJP-NEXT:    %[[V19:.*]] = stablehlo.select %[[V11]], %[[V0]]#0, %[[CST_2]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V20:.*]] = stablehlo.reduce(%[[V19]] init: %[[CST_1]]) applies stablehlo.add across dimensions = [1] : (tensor<3x3xcomplex<f64>>, tensor<complex<f64>>) -> tensor<3xcomplex<f64>>
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
// VJP-NEXT:    %[[V40:.*]] = stablehlo.select %[[V9]], %[[V39]], %[[CST_0]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V41:.*]] = stablehlo.imag %[[V40]] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V42:.*]] = stablehlo.negate %[[V41]] : tensor<3x3xf64>
// VJP-NEXT:    %[[V43:.*]] = stablehlo.real %[[V40]] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V44:.*]] = stablehlo.complex %[[V43]], %[[V42]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V45:.*]] = stablehlo.compare LE, %[[V8]], %[[V7]] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
// VJP-NEXT:    %[[V46:.*]] = stablehlo.select %[[V45]], %arg1, %[[CST_2]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V47:.*]] = stablehlo.imag %[[V0]]#0 : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V48:.*]] = stablehlo.negate %[[V47]] : tensor<3x3xf64>
// VJP-NEXT:    %[[V49:.*]] = stablehlo.real %[[V0]]#0 : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V50:.*]] = stablehlo.complex %[[V49]], %[[V48]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V51:.*]] = stablehlo.dot_general %[[V50]], %[[V46]], contracting_dims = [0] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V52:.*]] = stablehlo.negate %[[V46]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V53:.*]] = stablehlo.dot_general %[[V52]], %[[V50]], contracting_dims = [1] x [1], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V54:.*]] = stablehlo.dot_general %[[V4]], %arg2, contracting_dims = [0] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V55:.*]] = stablehlo.add %[[V54]], %[[V53]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V56:.*]] = stablehlo.add %[[V55]], %[[V51]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V57:.*]] = stablehlo.negate %[[V56]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V58:.*]] = stablehlo.real %[[V57]] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V59:.*]] = stablehlo.complex %[[V58]], %[[CST]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V60:.*]] = stablehlo.imag %[[V57]] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V61:.*]] = stablehlo.negate %[[V60]] : tensor<3x3xf64>
// VJP-NEXT:    %[[V62:.*]] = stablehlo.complex %[[CST]], %[[V61]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V63:.*]] = stablehlo.add %[[V62]], %[[V59]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V64:.*]] = stablehlo.transpose %[[V63]], dims = [1, 0] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V65:.*]] = stablehlo.add %[[V56]], %[[V64]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V66:.*]] = stablehlo.select %[[V9]], %[[V65]], %[[CST_2]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V67:.*]] = "stablehlo.triangular_solve"(%[[V32]], %[[V66]]) <{left_side = false, lower = false, transpose_a = #stablehlo<transpose ADJOINT>, unit_diagonal = false}> : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V68:.*]] = stablehlo.dot_general %[[V36]], %[[V67]], contracting_dims = [0] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V69:.*]] = stablehlo.divide %[[V68]], %[[V44]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V70:.*]] = stablehlo.select %[[V9]], %[[V69]], %[[CST_2]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V71:.*]] = "stablehlo.triangular_solve"(%[[V32]], %[[V70]]) <{left_side = true, lower = false, transpose_a = #stablehlo<transpose ADJOINT>, unit_diagonal = false}> : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V72:.*]] = stablehlo.dot_general %[[V71]], %[[V36]], contracting_dims = [1] x [1], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V73:.*]] = stablehlo.add %[[V46]], %[[V72]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V74:.*]] = stablehlo.transpose %[[V0]]#1, dims = [1, 0] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V75:.*]] = stablehlo.dot_general %[[V74]], %[[V73]], contracting_dims = [0] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V76:.*]] = stablehlo.dot_general %[[V75]], %[[V4]], contracting_dims = [1] x [1], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    return %[[V0]]#0, %[[V0]]#1, %[[V76]] : tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>

func.func @main(%x: tensor<3x3xcomplex<f64>>) -> (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) {
  %0:5 = stablehlo.custom_call @lapack_zgees_ffi(%x) {api_version = 4 : i32, backend_config = {mode = 86 : ui8, sort = 78 : ui8}} : (tensor<3x3xcomplex<f64>>) -> (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>, tensor<3xcomplex<f64>>, tensor<i32>, tensor<i32>)
  return %0#0, %0#1 : tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>
}
