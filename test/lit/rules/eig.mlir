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
// JVP-NEXT:    %[[V4:.*]] = stablehlo.imag %[[V3]] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V5:.*]] = stablehlo.negate %[[V4]] : tensor<3x3xf64>
// JVP-NEXT:    %[[V6:.*]] = stablehlo.real %[[V3]] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V7:.*]] = stablehlo.complex %[[V6]], %[[V5]] : tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V8:.*]] = stablehlo.dot_general %[[V7]], %[[V2]], contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V9:.*]] = stablehlo.dot_general %[[V7]], %[[V1]]#2, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V10:.*]] = stablehlo.abs %[[V1]]#0 : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
// JVP-NEXT:    %[[V11:.*]] = stablehlo.reduce(%[[V10]] init: %[[CST_4]]) applies stablehlo.maximum across dimensions = [0] : (tensor<3xf64>, tensor<f64>) -> tensor<f64>
// JVP-NEXT:    %[[V12:.*]] = stablehlo.multiply %[[V11]], %[[CST_3]] : tensor<f64>
// JVP-NEXT:    %[[V13:.*]] = stablehlo.broadcast_in_dim %[[V12]], dims = [] : (tensor<f64>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V14:.*]] = stablehlo.broadcast_in_dim %[[V1]]#0, dims = [0] : (tensor<3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V15:.*]] = stablehlo.broadcast_in_dim %[[V1]]#0, dims = [1] : (tensor<3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V16:.*]] = stablehlo.subtract %[[V15]], %[[V14]] : tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V17:.*]] = stablehlo.abs %[[V16]] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V18:.*]] = stablehlo.compare LE, %[[V17]], %[[V13]] : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xi1>
// JVP-NEXT:    %[[V19:.*]] = stablehlo.select %[[V18]], %[[V9]], %[[CST_5]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V20:.*]] = stablehlo.iota dim = 0 : tensor<3xi32>
// JVP-NEXT:    %[[V21:.*]] = stablehlo.broadcast_in_dim %[[V20]], dims = [1] : (tensor<3xi32>) -> tensor<3x3xi32>
// JVP-NEXT:    %[[V22:.*]] = stablehlo.broadcast_in_dim %[[V20]], dims = [0] : (tensor<3xi32>) -> tensor<3x3xi32>
// JVP-NEXT:    %[[V23:.*]] = stablehlo.compare EQ, %[[V22]], %[[V21]] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
// JVP-NEXT:    %[[V24:.*]] = stablehlo.convert %[[V23]] : (tensor<3x3xi1>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V25:.*]] = stablehlo.select %[[V23]], %[[V9]], %[[CST_5]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V26:.*]] = stablehlo.reduce(%[[V25]] init: %[[CST_6]]) applies stablehlo.add across dimensions = [1] : (tensor<3x3xcomplex<f64>>, tensor<complex<f64>>) -> tensor<3xcomplex<f64>>
// JVP-NEXT:    %[[V27:.*]] = stablehlo.abs %[[V26]] : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
// JVP-NEXT:    %[[V28:.*]] = stablehlo.compare LE, %[[V27]], %[[CST_2]] : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// JVP-NEXT:    %[[V29:.*]] = stablehlo.broadcast_in_dim %[[V28]], dims = [1] : (tensor<3xi1>) -> tensor<3x3xi1>
// JVP-NEXT:    %[[V30:.*]] = stablehlo.and %[[V18]], %[[V29]] : tensor<3x3xi1>
// JVP-NEXT:    %[[V31:.*]] = stablehlo.reduce(%[[V30]] init: %[[C]]) applies stablehlo.or across dimensions = [1] : (tensor<3x3xi1>, tensor<i1>) -> tensor<3xi1>
// JVP-NEXT:    %[[V32:.*]] = stablehlo.broadcast_in_dim %[[V31]], dims = [1] : (tensor<3xi1>) -> tensor<3x3xi1>
// JVP-NEXT:    %[[V33:.*]] = stablehlo.broadcast_in_dim %[[V31]], dims = [0] : (tensor<3xi1>) -> tensor<3x3xi1>
// JVP-NEXT:    %[[V34:.*]] = stablehlo.or %[[V33]], %[[V32]] : tensor<3x3xi1>
// JVP-NEXT:    %[[V35:.*]] = stablehlo.select %[[V34]], %[[V24]], %[[V19]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V36:.*]] = "stablehlo.triangular_solve"(%[[V35]], %[[V8]]) <{left_side = true, lower = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V37:.*]] = stablehlo.select %[[V23]], %[[V36]], %[[CST_5]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V38:.*]] = stablehlo.reduce(%[[V37]] init: %[[CST_6]]) applies stablehlo.add across dimensions = [1] : (tensor<3x3xcomplex<f64>>, tensor<complex<f64>>) -> tensor<3xcomplex<f64>>
// JVP-NEXT:    %[[V39:.*]] = stablehlo.iota dim = 0 : tensor<3xf64>
// JVP-NEXT:    %[[V40:.*]] = stablehlo.broadcast_in_dim %[[V39]], dims = [1] : (tensor<3xf64>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V41:.*]] = stablehlo.multiply %[[V40]], %[[CST_1]] : tensor<3x3xf64>
// JVP-NEXT:    %[[V42:.*]] = stablehlo.broadcast_in_dim %[[V39]], dims = [0] : (tensor<3xf64>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V43:.*]] = stablehlo.add %[[V42]], %[[V41]] : tensor<3x3xf64>
// JVP-NEXT:    %[[V44:.*]] = stablehlo.sine %[[V43]] : tensor<3x3xf64>
// JVP-NEXT:    %[[V45:.*]] = stablehlo.convert %[[V44]] : (tensor<3x3xf64>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V46:.*]] = stablehlo.add %[[V45]], %[[V1]]#2 : tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V47:.*]] = stablehlo.multiply %[[V46]], %arg1 : tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V48:.*]] = stablehlo.reduce(%[[V47]] init: %[[CST_6]]) applies stablehlo.add across dimensions = [0, 1] : (tensor<3x3xcomplex<f64>>, tensor<complex<f64>>) -> tensor<complex<f64>>
// JVP-NEXT:    %[[V49:.*]] = stablehlo.broadcast_in_dim %[[V48]], dims = [] : (tensor<complex<f64>>) -> tensor<3xcomplex<f64>>
// JVP-NEXT:    %[[V50:.*]] = stablehlo.select %[[V31]], %[[CST]], %[[CST_0]] : tensor<3xi1>, tensor<3xf64>
// JVP-NEXT:    %[[V51:.*]] = stablehlo.convert %[[V50]] : (tensor<3xf64>) -> tensor<3xcomplex<f64>>
// JVP-NEXT:    %[[V52:.*]] = stablehlo.multiply %[[V51]], %[[V49]] : tensor<3xcomplex<f64>>
// JVP-NEXT:    %[[V53:.*]] = stablehlo.multiply %[[V51]], %[[V52]] : tensor<3xcomplex<f64>>
// JVP-NEXT:    %[[V54:.*]] = stablehlo.select %[[V31]], %[[V53]], %[[V38]] : tensor<3xi1>, tensor<3xcomplex<f64>>
// JVP-NEXT:    return %[[V0]]#0, %[[V54]] : tensor<3xcomplex<f64>>, tensor<3xcomplex<f64>>

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
// VJP-NEXT:    %[[V2:.*]] = stablehlo.imag %[[V1]]#2 : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.negate %[[V2]] : tensor<3x3xf64>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.real %[[V1]]#2 : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.complex %[[V4]], %[[V3]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.transpose %[[V1]]#1, dims = [1, 0] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.imag %[[V6]] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V8:.*]] = stablehlo.negate %[[V7]] : tensor<3x3xf64>
// VJP-NEXT:    %[[V9:.*]] = stablehlo.real %[[V6]] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V10:.*]] = stablehlo.complex %[[V9]], %[[V8]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V11:.*]] = stablehlo.dot_general %[[V10]], %[[V1]]#2, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V12:.*]] = stablehlo.iota dim = 0 : tensor<3xi32>
// VJP-NEXT:    %[[V13:.*]] = stablehlo.broadcast_in_dim %[[V12]], dims = [1] : (tensor<3xi32>) -> tensor<3x3xi32>
// VJP-NEXT:    %[[V14:.*]] = stablehlo.broadcast_in_dim %[[V12]], dims = [0] : (tensor<3xi32>) -> tensor<3x3xi32>
// VJP-NEXT:    %[[V15:.*]] = stablehlo.compare EQ, %[[V14]], %[[V13]] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
// VJP-NEXT:    %[[V16:.*]] = stablehlo.select %[[V15]], %[[V11]], %[[CST_7]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V17:.*]] = stablehlo.reduce(%[[V16]] init: %[[CST_4]]) applies stablehlo.add across dimensions = [1] : (tensor<3x3xcomplex<f64>>, tensor<complex<f64>>) -> tensor<3xcomplex<f64>>
// VJP-NEXT:    %[[V18:.*]] = stablehlo.abs %[[V17]] : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
// VJP-NEXT:    %[[V19:.*]] = stablehlo.compare LE, %[[V18]], %[[CST_5]] : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// VJP-NEXT:    %[[V20:.*]] = stablehlo.broadcast_in_dim %[[V19]], dims = [1] : (tensor<3xi1>) -> tensor<3x3xi1>
// VJP-NEXT:    %[[V21:.*]] = stablehlo.abs %[[V1]]#0 : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
// VJP-NEXT:    %[[V22:.*]] = stablehlo.reduce(%[[V21]] init: %[[CST_3]]) applies stablehlo.maximum across dimensions = [0] : (tensor<3xf64>, tensor<f64>) -> tensor<f64>
// VJP-NEXT:    %[[V23:.*]] = stablehlo.multiply %[[V22]], %[[CST_2]] : tensor<f64>
// VJP-NEXT:    %[[V24:.*]] = stablehlo.broadcast_in_dim %[[V23]], dims = [] : (tensor<f64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V25:.*]] = stablehlo.broadcast_in_dim %[[V1]]#0, dims = [0] : (tensor<3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V26:.*]] = stablehlo.broadcast_in_dim %[[V1]]#0, dims = [1] : (tensor<3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V27:.*]] = stablehlo.subtract %[[V26]], %[[V25]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V28:.*]] = stablehlo.abs %[[V27]] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V29:.*]] = stablehlo.compare LE, %[[V28]], %[[V24]] : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xi1>
// VJP-NEXT:    %[[V30:.*]] = stablehlo.and %[[V29]], %[[V20]] : tensor<3x3xi1>
// VJP-NEXT:    %[[V31:.*]] = stablehlo.reduce(%[[V30]] init: %[[C]]) applies stablehlo.or across dimensions = [1] : (tensor<3x3xi1>, tensor<i1>) -> tensor<3xi1>
// VJP-NEXT:    %[[V32:.*]] = stablehlo.select %[[V31]], %[[CST_6]], %arg1 : tensor<3xi1>, tensor<3xcomplex<f64>>
// VJP-NEXT:    %[[V33:.*]] = stablehlo.broadcast_in_dim %[[V32]], dims = [0] : (tensor<3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V34:.*]] = stablehlo.select %[[V15]], %[[V33]], %[[CST_7]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V35:.*]] = stablehlo.select %[[V29]], %[[V11]], %[[CST_7]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V36:.*]] = stablehlo.convert %[[V15]] : (tensor<3x3xi1>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V37:.*]] = stablehlo.broadcast_in_dim %[[V31]], dims = [1] : (tensor<3xi1>) -> tensor<3x3xi1>
// VJP-NEXT:    %[[V38:.*]] = stablehlo.broadcast_in_dim %[[V31]], dims = [0] : (tensor<3xi1>) -> tensor<3x3xi1>
// VJP-NEXT:    %[[V39:.*]] = stablehlo.or %[[V38]], %[[V37]] : tensor<3x3xi1>
// VJP-NEXT:    %[[V40:.*]] = stablehlo.select %[[V39]], %[[V36]], %[[V35]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V41:.*]] = "stablehlo.triangular_solve"(%[[V40]], %[[V34]]) <{left_side = true, lower = false, transpose_a = #stablehlo<transpose ADJOINT>, unit_diagonal = false}> : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V42:.*]] = stablehlo.dot_general %[[V6]], %[[V41]], contracting_dims = [0] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V43:.*]] = stablehlo.dot_general %[[V42]], %[[V5]], contracting_dims = [1] x [1], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V44:.*]] = stablehlo.select %[[V31]], %arg1, %[[CST_6]] : tensor<3xi1>, tensor<3xcomplex<f64>>
// VJP-NEXT:    %[[V45:.*]] = stablehlo.select %[[V31]], %[[CST_0]], %[[CST_1]] : tensor<3xi1>, tensor<3xf64>
// VJP-NEXT:    %[[V46:.*]] = stablehlo.convert %[[V45]] : (tensor<3xf64>) -> tensor<3xcomplex<f64>>
// VJP-NEXT:    %[[V47:.*]] = stablehlo.imag %[[V46]] : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
// VJP-NEXT:    %[[V48:.*]] = stablehlo.negate %[[V47]] : tensor<3xf64>
// VJP-NEXT:    %[[V49:.*]] = stablehlo.real %[[V46]] : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
// VJP-NEXT:    %[[V50:.*]] = stablehlo.complex %[[V49]], %[[V48]] : tensor<3xcomplex<f64>>
// VJP-NEXT:    %[[V51:.*]] = stablehlo.multiply %[[V50]], %[[V44]] : tensor<3xcomplex<f64>>
// VJP-NEXT:    %[[V52:.*]] = stablehlo.multiply %[[V50]], %[[V51]] : tensor<3xcomplex<f64>>
// VJP-NEXT:    %[[V53:.*]] = stablehlo.reduce(%[[V52]] init: %[[CST_4]]) applies stablehlo.add across dimensions = [0] : (tensor<3xcomplex<f64>>, tensor<complex<f64>>) -> tensor<complex<f64>>
// VJP-NEXT:    %[[V54:.*]] = stablehlo.broadcast_in_dim %[[V53]], dims = [] : (tensor<complex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V55:.*]] = stablehlo.iota dim = 0 : tensor<3xf64>
// VJP-NEXT:    %[[V56:.*]] = stablehlo.broadcast_in_dim %[[V55]], dims = [1] : (tensor<3xf64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V57:.*]] = stablehlo.multiply %[[V56]], %[[CST]] : tensor<3x3xf64>
// VJP-NEXT:    %[[V58:.*]] = stablehlo.broadcast_in_dim %[[V55]], dims = [0] : (tensor<3xf64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V59:.*]] = stablehlo.add %[[V58]], %[[V57]] : tensor<3x3xf64>
// VJP-NEXT:    %[[V60:.*]] = stablehlo.sine %[[V59]] : tensor<3x3xf64>
// VJP-NEXT:    %[[V61:.*]] = stablehlo.convert %[[V60]] : (tensor<3x3xf64>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V62:.*]] = stablehlo.add %[[V61]], %[[V1]]#2 : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V63:.*]] = stablehlo.imag %[[V62]] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V64:.*]] = stablehlo.negate %[[V63]] : tensor<3x3xf64>
// VJP-NEXT:    %[[V65:.*]] = stablehlo.real %[[V62]] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V66:.*]] = stablehlo.complex %[[V65]], %[[V64]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V67:.*]] = stablehlo.multiply %[[V66]], %[[V54]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V68:.*]] = stablehlo.add %[[V67]], %[[V43]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    return %[[V0]]#0, %[[V68]] : tensor<3xcomplex<f64>>, tensor<3x3xcomplex<f64>>

func.func @main(%x: tensor<3x3xcomplex<f64>>) -> (tensor<3xcomplex<f64>>) {
  %0:4 = stablehlo.custom_call @lapack_zgeev_ffi(%x) {api_version = 4 : i32, backend_config = {compute_left = 78 : ui8, compute_right = 86 : ui8}} : (tensor<3x3xcomplex<f64>>) -> (tensor<3xcomplex<f64>>, tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>, tensor<i32>)
  return %0#0 : tensor<3xcomplex<f64>>
}
