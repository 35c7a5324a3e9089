// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// dx = op(a)^-1 (dy - op(da) x), with the triangle of da that is read. The transpose solves with the adjoint of op(a).

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<(0.000000e+00,0.000000e+00)> : tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V0:.*]] = "stablehlo.triangular_solve"(%arg0, %arg1) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose TRANSPOSE>, unit_diagonal = true}> : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.iota dim = 0 : tensor<3xi32>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.broadcast_in_dim %[[V1]], dims = [1] : (tensor<3xi32>) -> tensor<3x3xi32>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.broadcast_in_dim %[[V1]], dims = [0] : (tensor<3xi32>) -> tensor<3x3xi32>
// JVP-NEXT:    %[[V4:.*]] = stablehlo.compare GT, %[[V3]], %[[V2]] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
// JVP-NEXT:    %[[V5:.*]] = stablehlo.select %[[V4]], %arg2, %[[CST]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V6:.*]] = stablehlo.transpose %[[V5]], dims = [1, 0] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V7:.*]] = stablehlo.dot_general %[[V6]], %[[V0]], contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V8:.*]] = stablehlo.subtract %arg3, %[[V7]] : tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V9:.*]] = "stablehlo.triangular_solve"(%arg0, %[[V8]]) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose TRANSPOSE>, unit_diagonal = true}> : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    return %[[V0]], %[[V9]] : tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<(0.000000e+00,0.000000e+00)> : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V0:.*]] = "stablehlo.triangular_solve"(%arg0, %arg1) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose TRANSPOSE>, unit_diagonal = true}> : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V1:.*]] = chlo.conj %[[V0]] : tensor<3x3xcomplex<f64>> -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V2:.*]] = chlo.conj %arg0 : tensor<3x3xcomplex<f64>> -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V3:.*]] = "stablehlo.triangular_solve"(%[[V2]], %arg2) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = true}> : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.negate %[[V3]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.dot_general %[[V4]], %[[V1]], contracting_dims = [1] x [1], precision = [HIGHEST, HIGHEST] : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.transpose %[[V5]], dims = [1, 0] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.iota dim = 0 : tensor<3xi32>
// VJP-NEXT:    %[[V8:.*]] = stablehlo.broadcast_in_dim %[[V7]], dims = [1] : (tensor<3xi32>) -> tensor<3x3xi32>
// VJP-NEXT:    %[[V9:.*]] = stablehlo.broadcast_in_dim %[[V7]], dims = [0] : (tensor<3xi32>) -> tensor<3x3xi32>
// VJP-NEXT:    %[[V10:.*]] = stablehlo.compare GT, %[[V9]], %[[V8]] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
// VJP-NEXT:    %[[V11:.*]] = stablehlo.select %[[V10]], %[[V6]], %[[CST]] : tensor<3x3xi1>, tensor<3x3xcomplex<f64>>
// VJP-NEXT:    return %[[V0]], %[[V11]], %[[V3]] : tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>

func.func @main(%x: tensor<3x3xcomplex<f64>>, %y: tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>> {
  %0 = "stablehlo.triangular_solve"(%x, %y) {left_side = true, lower = true, transpose_a = #stablehlo<transpose TRANSPOSE>,
    unit_diagonal = true} : (tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
  return %0 : tensor<3x3xcomplex<f64>>
}
