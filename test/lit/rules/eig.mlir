// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// The derivative of eigenvalues needs left and right eigenvectors: another call computes the missing ones.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<(0.000000e+00,0.000000e+00)> : tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<(0.000000e+00,0.000000e+00)> : tensor<complex<f64>>
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
// JVP-NEXT:    %[[V10:.*]] = "stablehlo.triangular_solve"(%[[V9]], %[[V8]]) <{left_side = true, lower = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V11:.*]] = stablehlo.iota dim = 0 : tensor<3xi32>
// JVP-NEXT:    %[[V12:.*]] = stablehlo.broadcast_in_dim %[[V11]], dims = [1] : (tensor<3xi32>) -> tensor<3x3xi32>
// JVP-NEXT:    %[[V13:.*]] = stablehlo.broadcast_in_dim %[[V11]], dims = [0] : (tensor<3xi32>) -> tensor<3x3xi32>
// JVP-NEXT:    %[[V14:.*]] = stablehlo.compare EQ, %[[V13]], %[[V12]] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
// JVP-NEXT:    %[[V15:.*]] = stablehlo.select %[[V14]], %[[V10]], %[[CST]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V16:.*]] = stablehlo.reduce(%[[V15]] init: %[[CST_0]]) applies stablehlo.add across dimensions = [1] : (tensor<3x3xcomplex<f64>>, tensor<complex<f64>>) -> tensor<3xcomplex<f64>>
// JVP-NEXT:    return %[[V0]]#0, %[[V16]] : tensor<3xcomplex<f64>>, tensor<3xcomplex<f64>>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<(0.000000e+00,0.000000e+00)> : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V0:.*]]:4 = stablehlo.custom_call @lapack_zgeev_ffi(%arg0) {api_version = 4 : i32, backend_config = {compute_left = 78 : ui8, compute_right = 86 : ui8}} : (tensor<3x3xcomplex<f64>>) -> (tensor<3xcomplex<f64>>, tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>, tensor<i32>)
// VJP-NEXT:    %[[V1:.*]]:4 = stablehlo.custom_call @lapack_zgeev_ffi(%arg0) {api_version = 4 : i32, backend_config = {compute_left = 86 : ui8, compute_right = 86 : ui8}} : (tensor<3x3xcomplex<f64>>) -> (tensor<3xcomplex<f64>>, tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>, tensor<i32>)
// VJP-NEXT:    %[[V2:.*]] = stablehlo.imag %[[V1]]#2 : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.negate %[[V2]] : tensor<3x3xf64>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.real %[[V1]]#2 : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.complex %[[V4]], %[[V3]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.broadcast_in_dim %arg1, dims = [0] : (tensor<3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.iota dim = 0 : tensor<3xi32>
// VJP-NEXT:    %[[V8:.*]] = stablehlo.broadcast_in_dim %[[V7]], dims = [1] : (tensor<3xi32>) -> tensor<3x3xi32>
// VJP-NEXT:    %[[V9:.*]] = stablehlo.broadcast_in_dim %[[V7]], dims = [0] : (tensor<3xi32>) -> tensor<3x3xi32>
// VJP-NEXT:    %[[V10:.*]] = stablehlo.compare EQ, %[[V9]], %[[V8]] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
// VJP-NEXT:    %[[V11:.*]] = stablehlo.select %[[V10]], %[[V6]], %[[CST]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V12:.*]] = stablehlo.transpose %[[V1]]#1, dims = [1, 0] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V13:.*]] = stablehlo.imag %[[V12]] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V14:.*]] = stablehlo.negate %[[V13]] : tensor<3x3xf64>
// VJP-NEXT:    %[[V15:.*]] = stablehlo.real %[[V12]] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V16:.*]] = stablehlo.complex %[[V15]], %[[V14]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V17:.*]] = stablehlo.dot_general %[[V16]], %[[V1]]#2, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V18:.*]] = "stablehlo.triangular_solve"(%[[V17]], %[[V11]]) <{left_side = true, lower = false, transpose_a = #stablehlo<transpose ADJOINT>, unit_diagonal = false}> : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V19:.*]] = stablehlo.dot_general %[[V12]], %[[V18]], contracting_dims = [0] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V20:.*]] = stablehlo.dot_general %[[V19]], %[[V5]], contracting_dims = [1] x [1], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    return %[[V0]]#0, %[[V20]] : tensor<3xcomplex<f64>>, tensor<3x3xcomplex<f64>>

func.func @main(%x: tensor<3x3xcomplex<f64>>) -> (tensor<3xcomplex<f64>>) {
  %0:4 = stablehlo.custom_call @lapack_zgeev_ffi(%x) {api_version = 4 : i32, backend_config = {compute_left = 78 : ui8, compute_right = 86 : ui8}} : (tensor<3x3xcomplex<f64>>) -> (tensor<3xcomplex<f64>>, tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>, tensor<i32>)
  return %0#0 : tensor<3xcomplex<f64>>
}
