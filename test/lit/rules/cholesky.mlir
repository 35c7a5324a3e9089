// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// Two solves and a product, which read the lower triangle of the tangent, like the op reads that of the matrix.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<5.000000e-01> : tensor<3x3xf64>
// JVP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3x3xf64>
// JVP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3x3xf64>
// JVP-NEXT:    %[[V0:.*]] = stablehlo.cholesky %arg0, lower = true : tensor<3x3xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.iota dim = 0 : tensor<3xi32>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.broadcast_in_dim %[[V1]], dims = [1] : (tensor<3xi32>) -> tensor<3x3xi32>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.broadcast_in_dim %[[V1]], dims = [0] : (tensor<3xi32>) -> tensor<3x3xi32>
// JVP-NEXT:    %[[V4:.*]] = stablehlo.compare EQ, %[[V3]], %[[V2]] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
// JVP-NEXT:    %[[V5:.*]] = stablehlo.select %[[V4]], %[[CST]], %[[CST_0]] : tensor<3x3xi1>, tensor<3x3xf64>
// JVP-NEXT:    %[[V6:.*]] = stablehlo.multiply %[[V5]], %arg1 : tensor<3x3xf64>
// JVP-NEXT:    %[[V7:.*]] = stablehlo.compare GE, %[[V3]], %[[V2]] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
// JVP-NEXT:    %[[V8:.*]] = stablehlo.select %[[V7]], %[[V6]], %[[CST_1]] : tensor<3x3xi1>, tensor<3x3xf64>
// JVP-NEXT:    %[[V9:.*]] = stablehlo.transpose %[[V8]], dims = [1, 0] : (tensor<3x3xf64>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V10:.*]] = stablehlo.add %[[V8]], %[[V9]] : tensor<3x3xf64>
// JVP-NEXT:    %[[V11:.*]] = "stablehlo.triangular_solve"(%[[V0]], %[[V10]]) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V12:.*]] = "stablehlo.triangular_solve"(%[[V0]], %[[V11]]) <{left_side = false, lower = true, transpose_a = #stablehlo<transpose TRANSPOSE>, unit_diagonal = false}> : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V13:.*]] = stablehlo.multiply %[[V5]], %[[V12]] : tensor<3x3xf64>
// JVP-NEXT:    %[[V14:.*]] = stablehlo.select %[[V7]], %[[V13]], %[[CST_1]] : tensor<3x3xi1>, tensor<3x3xf64>
// JVP-NEXT:    %[[V15:.*]] = stablehlo.select %[[V7]], %[[V0]], %[[CST_1]] : tensor<3x3xi1>, tensor<3x3xf64>
// JVP-NEXT:    %[[V16:.*]] = stablehlo.dot_general %[[V15]], %[[V14]], contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
// JVP-NEXT:    return %[[V0]], %[[V16]] : tensor<3x3xf64>, tensor<3x3xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<5.000000e-01> : tensor<3x3xf64>
// VJP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3x3xf64>
// VJP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3x3xf64>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.cholesky %arg0, lower = true : tensor<3x3xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.iota dim = 0 : tensor<3xi32>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.broadcast_in_dim %[[V1]], dims = [1] : (tensor<3xi32>) -> tensor<3x3xi32>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.broadcast_in_dim %[[V1]], dims = [0] : (tensor<3xi32>) -> tensor<3x3xi32>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.compare GE, %[[V3]], %[[V2]] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.select %[[V4]], %[[V0]], %[[CST_1]] : tensor<3x3xi1>, tensor<3x3xf64>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.dot_general %[[V5]], %arg1, contracting_dims = [0] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.select %[[V4]], %[[V6]], %[[CST_1]] : tensor<3x3xi1>, tensor<3x3xf64>
// VJP-NEXT:    %[[V8:.*]] = stablehlo.compare EQ, %[[V3]], %[[V2]] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
// VJP-NEXT:    %[[V9:.*]] = stablehlo.select %[[V8]], %[[CST]], %[[CST_0]] : tensor<3x3xi1>, tensor<3x3xf64>
// VJP-NEXT:    %[[V10:.*]] = stablehlo.multiply %[[V9]], %[[V7]] : tensor<3x3xf64>
// VJP-NEXT:    %[[V11:.*]] = "stablehlo.triangular_solve"(%[[V0]], %[[V10]]) <{left_side = false, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V12:.*]] = "stablehlo.triangular_solve"(%[[V0]], %[[V11]]) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose TRANSPOSE>, unit_diagonal = false}> : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V13:.*]] = stablehlo.transpose %[[V12]], dims = [1, 0] : (tensor<3x3xf64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V14:.*]] = stablehlo.add %[[V12]], %[[V13]] : tensor<3x3xf64>
// VJP-NEXT:    %[[V15:.*]] = stablehlo.select %[[V4]], %[[V14]], %[[CST_1]] : tensor<3x3xi1>, tensor<3x3xf64>
// VJP-NEXT:    %[[V16:.*]] = stablehlo.multiply %[[V9]], %[[V15]] : tensor<3x3xf64>
// VJP-NEXT:    return %[[V0]], %[[V16]] : tensor<3x3xf64>, tensor<3x3xf64>

func.func @main(%x: tensor<3x3xf64>) -> tensor<3x3xf64> {
  %0 = stablehlo.cholesky %x, lower = true : tensor<3x3xf64>
  return %0 : tensor<3x3xf64>
}
