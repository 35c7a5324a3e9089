// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// The rule of `cholesky` applies to the triangle that is read; the other triangle's tangent is unchanged. If info is not 0,
// the factor is NaN.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[C:.*]] = stablehlo.constant dense<0> : tensor<i32>
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0x7FF8000000000000> : tensor<3x3xf64>
// JVP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<5.000000e-01> : tensor<3x3xf64>
// JVP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3x3xf64>
// JVP-NEXT:    %[[CST_2:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3x3xf64>
// JVP-NEXT:    %[[V0:.*]]:2 = stablehlo.custom_call @lapack_dpotrf_ffi(%arg0) {api_version = 4 : i32, backend_config = {uplo = 76 : ui8}, operand_layouts = [dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<> : tensor<0xindex>]} : (tensor<3x3xf64>) -> (tensor<3x3xf64>, tensor<i32>)
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
// JVP-NEXT:    %[[V11:.*]] = stablehlo.compare EQ, %[[V0]]#1, %[[C]] : (tensor<i32>, tensor<i32>) -> tensor<i1>
// JVP-NEXT:    %[[V12:.*]] = stablehlo.broadcast_in_dim %[[V11]], dims = [] : (tensor<i1>) -> tensor<3x3xi1>
// JVP-NEXT:    %[[V13:.*]] = stablehlo.select %[[V12]], %[[V0]]#0, %[[CST]] : tensor<3x3xi1>, tensor<3x3xf64>
// JVP-NEXT:    %[[V14:.*]] = "stablehlo.triangular_solve"(%[[V13]], %[[V10]]) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V15:.*]] = "stablehlo.triangular_solve"(%[[V13]], %[[V14]]) <{left_side = false, lower = true, transpose_a = #stablehlo<transpose TRANSPOSE>, unit_diagonal = false}> : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V16:.*]] = stablehlo.multiply %[[V5]], %[[V15]] : tensor<3x3xf64>
// JVP-NEXT:    %[[V17:.*]] = stablehlo.select %[[V7]], %[[V16]], %[[CST_2]] : tensor<3x3xi1>, tensor<3x3xf64>
// JVP-NEXT:    %[[V18:.*]] = stablehlo.select %[[V7]], %[[V13]], %[[CST_2]] : tensor<3x3xi1>, tensor<3x3xf64>
// JVP-NEXT:    %[[V19:.*]] = stablehlo.dot_general %[[V18]], %[[V17]], contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V20:.*]] = stablehlo.select %[[V7]], %[[V19]], %arg1 : tensor<3x3xi1>, tensor<3x3xf64>
// JVP-NEXT:    return %[[V0]]#0, %[[V20]] : tensor<3x3xf64>, tensor<3x3xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<5.000000e-01> : tensor<3x3xf64>
// VJP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3x3xf64>
// VJP-NEXT:    %[[C:.*]] = stablehlo.constant dense<0> : tensor<i32>
// VJP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<0x7FF8000000000000> : tensor<3x3xf64>
// VJP-NEXT:    %[[CST_2:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3x3xf64>
// VJP-NEXT:    %[[V0:.*]]:2 = stablehlo.custom_call @lapack_dpotrf_ffi(%arg0) {api_version = 4 : i32, backend_config = {uplo = 76 : ui8}, operand_layouts = [dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<> : tensor<0xindex>]} : (tensor<3x3xf64>) -> (tensor<3x3xf64>, tensor<i32>)
// VJP-NEXT:    %[[V1:.*]] = stablehlo.iota dim = 0 : tensor<3xi32>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.broadcast_in_dim %[[V1]], dims = [1] : (tensor<3xi32>) -> tensor<3x3xi32>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.broadcast_in_dim %[[V1]], dims = [0] : (tensor<3xi32>) -> tensor<3x3xi32>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.compare GE, %[[V3]], %[[V2]] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.select %[[V4]], %[[CST_2]], %arg1 : tensor<3x3xi1>, tensor<3x3xf64>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.select %[[V4]], %arg1, %[[CST_2]] : tensor<3x3xi1>, tensor<3x3xf64>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.compare EQ, %[[V0]]#1, %[[C]] : (tensor<i32>, tensor<i32>) -> tensor<i1>
// VJP-NEXT:    %[[V8:.*]] = stablehlo.broadcast_in_dim %[[V7]], dims = [] : (tensor<i1>) -> tensor<3x3xi1>
// VJP-NEXT:    %[[V9:.*]] = stablehlo.select %[[V8]], %[[V0]]#0, %[[CST_1]] : tensor<3x3xi1>, tensor<3x3xf64>
// VJP-NEXT:    %[[V10:.*]] = stablehlo.select %[[V4]], %[[V9]], %[[CST_2]] : tensor<3x3xi1>, tensor<3x3xf64>
// VJP-NEXT:    %[[V11:.*]] = stablehlo.dot_general %[[V10]], %[[V6]], contracting_dims = [0] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V12:.*]] = stablehlo.select %[[V4]], %[[V11]], %[[CST_2]] : tensor<3x3xi1>, tensor<3x3xf64>
// VJP-NEXT:    %[[V13:.*]] = stablehlo.compare EQ, %[[V3]], %[[V2]] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
// VJP-NEXT:    %[[V14:.*]] = stablehlo.select %[[V13]], %[[CST]], %[[CST_0]] : tensor<3x3xi1>, tensor<3x3xf64>
// VJP-NEXT:    %[[V15:.*]] = stablehlo.multiply %[[V14]], %[[V12]] : tensor<3x3xf64>
// VJP-NEXT:    %[[V16:.*]] = "stablehlo.triangular_solve"(%[[V9]], %[[V15]]) <{left_side = false, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V17:.*]] = "stablehlo.triangular_solve"(%[[V9]], %[[V16]]) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose TRANSPOSE>, unit_diagonal = false}> : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V18:.*]] = stablehlo.transpose %[[V17]], dims = [1, 0] : (tensor<3x3xf64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V19:.*]] = stablehlo.add %[[V17]], %[[V18]] : tensor<3x3xf64>
// VJP-NEXT:    %[[V20:.*]] = stablehlo.select %[[V4]], %[[V19]], %[[CST_2]] : tensor<3x3xi1>, tensor<3x3xf64>
// VJP-NEXT:    %[[V21:.*]] = stablehlo.multiply %[[V14]], %[[V20]] : tensor<3x3xf64>
// VJP-NEXT:    %[[V22:.*]] = stablehlo.add %[[V21]], %[[V5]] : tensor<3x3xf64>
// VJP-NEXT:    return %[[V0]]#0, %[[V22]] : tensor<3x3xf64>, tensor<3x3xf64>

func.func @main(%a: tensor<3x3xf64>) -> tensor<3x3xf64> {
  %0:2 = stablehlo.custom_call @lapack_dpotrf_ffi(%a) {mhlo.backend_config = {uplo = 76 : ui8},
    operand_layouts = [dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<> : tensor<0xindex>]} : (tensor<3x3xf64>) -> (tensor<3x3xf64>, tensor<i32>)
  return %0#0 : tensor<3x3xf64>
}
