// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// A loop turns the pivots into a permutation, which reorders the rows of the tangent. Two solves follow, and products of
// the result's triangles with the factors.

// JVP-LABEL: func.func @main
// JVP:         %[[V0:.*]]:3 = stablehlo.custom_call @lapack_dgetrf_ffi(%arg0) {{.*}} : (tensor<4x3xf64>) -> (tensor<4x3xf64>, tensor<3xi32>, tensor<i32>)
// JVP:         %[[V1:.*]]:2 = stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}) : tensor<i32>, tensor<4xi32>
// JVP-NEXT:    cond {
// JVP:         } do {

// VJP-LABEL: func.func @main
// VJP:         %[[V0:.*]]:3 = stablehlo.custom_call @lapack_dgetrf_ffi(%arg0) {{.*}} : (tensor<4x3xf64>) -> (tensor<4x3xf64>, tensor<3xi32>, tensor<i32>)
// VJP:         %[[V1:.*]] = stablehlo.dot_general %{{.*}}, %{{.*}}, contracting_dims = [1] x [1], precision = [HIGHEST, HIGHEST] : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
// VJP:         %[[V2:.*]] = stablehlo.dot_general %{{.*}}, %{{.*}}, contracting_dims = [0] x [0], precision = [HIGHEST, HIGHEST] : (tensor<4x3xf64>, tensor<4x3xf64>) -> tensor<3x3xf64>
// VJP:         %[[V3:.*]] = "stablehlo.triangular_solve"(%{{.*}}, %{{.*}}) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose TRANSPOSE>, unit_diagonal = true}> : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
// VJP:         %[[V4:.*]] = "stablehlo.triangular_solve"(%{{.*}}, %{{.*}}) <{left_side = false, lower = false, transpose_a = #stablehlo<transpose TRANSPOSE>, unit_diagonal = false}> : (tensor<3x3xf64>, tensor<4x3xf64>) -> tensor<4x3xf64>
// VJP:         %[[V5:.*]]:2 = stablehlo.while(%{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}) : tensor<i32>, tensor<4xi32>
// VJP-NEXT:    cond {
// VJP:         } do {

func.func @main(%a: tensor<4x3xf64>) -> tensor<4x3xf64> {
  %0:3 = stablehlo.custom_call @lapack_dgetrf_ffi(%a) {mhlo.backend_config = {},
    operand_layouts = [dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<0> : tensor<1xindex>, dense<> : tensor<0xindex>]}
    : (tensor<4x3xf64>) -> (tensor<4x3xf64>, tensor<3xi32>, tensor<i32>)
  return %0#0 : tensor<4x3xf64>
}
