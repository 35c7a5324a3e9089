// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// The rule differentiates Q and R together, so that dQ needs no tangents of reflectors.

// JVP-LABEL: func.func @main
// JVP:         %[[V0:.*]]:2 = stablehlo.custom_call @Qr(%arg0) : (tensor<4x3xf64>) -> (tensor<4x3xf64>, tensor<3xf64>)
// JVP-NEXT:    %[[V1:.*]] = stablehlo.custom_call @ProductOfElementaryHouseholderReflectors(%[[V0]]#0, %[[V0]]#1) : (tensor<4x3xf64>, tensor<3xf64>) -> tensor<4x3xf64>
// JVP:         %[[V2:.*]] = "stablehlo.triangular_solve"(%{{.*}}, %arg1) <{left_side = false, lower = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<3x3xf64>, tensor<4x3xf64>) -> tensor<4x3xf64>
// JVP:         %[[V3:.*]] = stablehlo.dot_general %{{.*}}, %[[V2]], contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x4xf64>, tensor<4x3xf64>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V4:.*]] = stablehlo.dot_general %{{.*}}, %{{.*}}, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x4xf64>, tensor<4x3xf64>) -> tensor<3x3xf64>
// JVP:         %[[V5:.*]] = "stablehlo.triangular_solve"(%{{.*}}, %[[V3]]) <{left_side = true, lower = false, transpose_a = #stablehlo<transpose TRANSPOSE>, unit_diagonal = true}> : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
// JVP:         %[[V6:.*]] = stablehlo.dot_general %{{.*}}, %{{.*}}, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<4x3xf64>, tensor<3x3xf64>) -> tensor<4x3xf64>
// JVP:         %[[V7:.*]] = stablehlo.dot_general %[[V1]], %{{.*}}, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<4x3xf64>, tensor<3x3xf64>) -> tensor<4x3xf64>
// JVP:         return %[[V1]], %{{.*}} : tensor<4x3xf64>, tensor<4x3xf64>

// VJP-LABEL: func.func @main
// VJP:         %[[V0:.*]]:2 = stablehlo.custom_call @Qr(%arg0) : (tensor<4x3xf64>) -> (tensor<4x3xf64>, tensor<3xf64>)
// VJP-NEXT:    %[[V1:.*]] = stablehlo.custom_call @ProductOfElementaryHouseholderReflectors(%[[V0]]#0, %[[V0]]#1) : (tensor<4x3xf64>, tensor<3xf64>) -> tensor<4x3xf64>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.dot_general %[[V1]], %arg1, contracting_dims = [0] x [0], precision = [HIGHEST, HIGHEST] : (tensor<4x3xf64>, tensor<4x3xf64>) -> tensor<3x3xf64>
// VJP:         %[[V3:.*]] = stablehlo.dot_general %{{.*}}, %{{.*}}, contracting_dims = [0] x [0], precision = [HIGHEST, HIGHEST] : (tensor<4x3xf64>, tensor<4x3xf64>) -> tensor<3x3xf64>
// VJP:         %[[V4:.*]] = stablehlo.dot_general %{{.*}}, %{{.*}}, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x4xf64>, tensor<4x3xf64>) -> tensor<3x3xf64>
// VJP:         %[[V5:.*]] = "stablehlo.triangular_solve"(%{{.*}}, %{{.*}}) <{left_side = true, lower = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = true}> : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.dot_general %{{.*}}, %[[V5]], contracting_dims = [0] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x4xf64>, tensor<3x3xf64>) -> tensor<4x3xf64>
// VJP:         %[[V7:.*]] = "stablehlo.triangular_solve"(%{{.*}}, %{{.*}}) <{left_side = false, lower = false, transpose_a = #stablehlo<transpose TRANSPOSE>, unit_diagonal = false}> : (tensor<3x3xf64>, tensor<4x3xf64>) -> tensor<4x3xf64>
// VJP-NEXT:    return %[[V1]], %[[V7]] : tensor<4x3xf64>, tensor<4x3xf64>

func.func @main(%a: tensor<4x3xf64>) -> tensor<4x3xf64> {
  %0:2 = stablehlo.custom_call @Qr(%a) : (tensor<4x3xf64>) -> (tensor<4x3xf64>, tensor<3xf64>)
  %1 = stablehlo.custom_call @ProductOfElementaryHouseholderReflectors(%0#0, %0#1)
    : (tensor<4x3xf64>, tensor<3xf64>) -> tensor<4x3xf64>
  return %1 : tensor<4x3xf64>
}
