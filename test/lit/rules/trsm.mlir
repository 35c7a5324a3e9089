// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// The rule of `triangular_solve`.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3x3xf64>
// JVP-NEXT:    %[[V0:.*]] = stablehlo.custom_call @lapack_dtrsm_ffi(%arg0, %arg1) {{.*}} : (tensor<3x3xf64>, tensor<3x2xf64>) -> tensor<3x2xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.iota dim = 0 : tensor<3xi32>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.broadcast_in_dim %[[V1]], dims = [1] : (tensor<3xi32>) -> tensor<3x3xi32>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.broadcast_in_dim %[[V1]], dims = [0] : (tensor<3xi32>) -> tensor<3x3xi32>
// JVP-NEXT:    %[[V4:.*]] = stablehlo.compare GT, %[[V3]], %[[V2]] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
// JVP-NEXT:    %[[V5:.*]] = stablehlo.select %[[V4]], %arg2, %[[CST]] : tensor<3x3xi1>, tensor<3x3xf64>
// JVP-NEXT:    %[[V6:.*]] = stablehlo.transpose %[[V5]], dims = [1, 0] : (tensor<3x3xf64>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V7:.*]] = stablehlo.dot_general %[[V6]], %[[V0]], contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xf64>, tensor<3x2xf64>) -> tensor<3x2xf64>
// JVP-NEXT:    %[[V8:.*]] = stablehlo.subtract %arg3, %[[V7]] : tensor<3x2xf64>
// JVP-NEXT:    %[[V9:.*]] = "stablehlo.triangular_solve"(%arg0, %[[V8]]) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose TRANSPOSE>, unit_diagonal = true}> : (tensor<3x3xf64>, tensor<3x2xf64>) -> tensor<3x2xf64>
// JVP-NEXT:    return %[[V0]], %[[V9]] : tensor<3x2xf64>, tensor<3x2xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3x3xf64>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.custom_call @lapack_dtrsm_ffi(%arg0, %arg1) {{.*}} : (tensor<3x3xf64>, tensor<3x2xf64>) -> tensor<3x2xf64>
// VJP-NEXT:    %[[V1:.*]] = "stablehlo.triangular_solve"(%arg0, %arg2) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = true}> : (tensor<3x3xf64>, tensor<3x2xf64>) -> tensor<3x2xf64>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.negate %[[V1]] : tensor<3x2xf64>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.dot_general %[[V2]], %[[V0]], contracting_dims = [1] x [1], precision = [HIGHEST, HIGHEST] : (tensor<3x2xf64>, tensor<3x2xf64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.transpose %[[V3]], dims = [1, 0] : (tensor<3x3xf64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.iota dim = 0 : tensor<3xi32>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.broadcast_in_dim %[[V5]], dims = [1] : (tensor<3xi32>) -> tensor<3x3xi32>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.broadcast_in_dim %[[V5]], dims = [0] : (tensor<3xi32>) -> tensor<3x3xi32>
// VJP-NEXT:    %[[V8:.*]] = stablehlo.compare GT, %[[V7]], %[[V6]] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
// VJP-NEXT:    %[[V9:.*]] = stablehlo.select %[[V8]], %[[V4]], %[[CST]] : tensor<3x3xi1>, tensor<3x3xf64>
// VJP-NEXT:    return %[[V0]], %[[V9]], %[[V1]] : tensor<3x2xf64>, tensor<3x3xf64>, tensor<3x2xf64>

func.func @main(%a: tensor<3x3xf64>, %y: tensor<3x2xf64>) -> tensor<3x2xf64> {
  %0 = stablehlo.custom_call @lapack_dtrsm_ffi(%a, %y) {
    mhlo.backend_config = {diag = 85 : ui8, side = 76 : ui8, trans_x = 84 : ui8, uplo = 76 : ui8},
    operand_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>]}
    : (tensor<3x3xf64>, tensor<3x2xf64>) -> tensor<3x2xf64>
  return %0 : tensor<3x2xf64>
}
