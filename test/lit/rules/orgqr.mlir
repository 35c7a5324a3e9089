// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// Q = 1 - V T V^H, where V has ones on its diagonal, and a solve gives T.

// JVP-LABEL: func.func @main
// JVP:         %[[V0:.*]] = stablehlo.custom_call @ProductOfElementaryHouseholderReflectors(%arg0, %arg1) : (tensor<4x3xf64>, tensor<3xf64>) -> tensor<4x3xf64>
// JVP:         %[[V1:.*]] = stablehlo.dot_general %{{.*}}, %{{.*}}, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x4xf64>, tensor<4x3xf64>) -> tensor<3x3xf64>
// JVP:         %[[V2:.*]] = "stablehlo.triangular_solve"(%{{.*}}, %{{.*}}) <{left_side = true, lower = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = true}> : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
// JVP:         %[[V3:.*]] = stablehlo.dot_general %{{.*}}, %{{.*}}, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x4xf64>, tensor<4x3xf64>) -> tensor<3x3xf64>
// JVP:         %[[V4:.*]] = stablehlo.dot_general %{{.*}}, %{{.*}}, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x4xf64>, tensor<4x3xf64>) -> tensor<3x3xf64>
// JVP:         %[[V5:.*]] = stablehlo.dot_general %{{.*}}, %[[V2]], contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
// JVP:         %[[V6:.*]] = "stablehlo.triangular_solve"(%{{.*}}, %{{.*}}) <{left_side = true, lower = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = true}> : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V7:.*]] = stablehlo.dot_general %{{.*}}, %[[V6]], contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<4x3xf64>, tensor<3x3xf64>) -> tensor<4x3xf64>
// JVP-NEXT:    %[[V8:.*]] = stablehlo.dot_general %{{.*}}, %[[V2]], contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<4x3xf64>, tensor<3x3xf64>) -> tensor<4x3xf64>
// JVP:         return %[[V0]], %{{.*}} : tensor<4x3xf64>, tensor<4x3xf64>

// VJP-LABEL: func.func @main
// VJP:         %[[V0:.*]] = stablehlo.custom_call @ProductOfElementaryHouseholderReflectors(%arg0, %arg1) : (tensor<4x3xf64>, tensor<3xf64>) -> tensor<4x3xf64>
// VJP:         %[[V1:.*]] = stablehlo.dot_general %{{.*}}, %{{.*}}, contracting_dims = [0] x [0], precision = [HIGHEST, HIGHEST] : (tensor<4x3xf64>, tensor<4x3xf64>) -> tensor<3x3xf64>
// VJP:         %[[V2:.*]] = stablehlo.dot_general %{{.*}}, %{{.*}}, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x4xf64>, tensor<4x3xf64>) -> tensor<3x3xf64>
// VJP:         %[[V3:.*]] = "stablehlo.triangular_solve"(%{{.*}}, %[[V1]]) <{left_side = true, lower = false, transpose_a = #stablehlo<transpose TRANSPOSE>, unit_diagonal = true}> : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
// VJP:         %[[V4:.*]] = "stablehlo.triangular_solve"(%{{.*}}, %{{.*}}) <{left_side = true, lower = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = true}> : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
// VJP:         %[[V5:.*]] = stablehlo.dot_general %{{.*}}, %[[V4]], contracting_dims = [1] x [1], precision = [HIGHEST, HIGHEST] : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
// VJP:         %[[V6:.*]] = stablehlo.dot_general %{{.*}}, %{{.*}}, contracting_dims = [1] x [1], precision = [HIGHEST, HIGHEST] : (tensor<3x3xf64>, tensor<4x3xf64>) -> tensor<3x4xf64>
// VJP:         %[[V7:.*]] = stablehlo.dot_general %{{.*}}, %{{.*}}, contracting_dims = [0] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x4xf64>, tensor<3x3xf64>) -> tensor<4x3xf64>
// VJP-NEXT:    %[[V8:.*]] = stablehlo.dot_general %{{.*}}, %[[V4]], contracting_dims = [1] x [1], precision = [HIGHEST, HIGHEST] : (tensor<4x3xf64>, tensor<3x3xf64>) -> tensor<4x3xf64>
// VJP:         return %[[V0]], %{{.*}}, %{{.*}} : tensor<4x3xf64>, tensor<4x3xf64>, tensor<3xf64>

func.func @main(%a: tensor<4x3xf64>, %tau: tensor<3xf64>) -> tensor<4x3xf64> {
  %0 = stablehlo.custom_call @ProductOfElementaryHouseholderReflectors(%a, %tau)
    : (tensor<4x3xf64>, tensor<3xf64>) -> tensor<4x3xf64>
  return %0 : tensor<4x3xf64>
}
