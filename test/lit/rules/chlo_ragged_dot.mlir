// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// The product rule. The transpose for rows is a ragged_dot, and for the matrices a dot_general of masked rows.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = "chlo.ragged_dot"(%arg0, %arg1, %arg2) <{precision_config = [#chlo<precision HIGHEST>, #chlo<precision DEFAULT>], ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}> : (tensor<5x3xf64>, tensor<2x3x4xf64>, tensor<2xi64>) -> tensor<5x4xf64>
// JVP-NEXT:    %[[V1:.*]] = "chlo.ragged_dot"(%arg0, %arg4, %arg2) <{precision_config = [#chlo<precision HIGHEST>, #chlo<precision DEFAULT>], ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}> : (tensor<5x3xf64>, tensor<2x3x4xf64>, tensor<2xi64>) -> tensor<5x4xf64>
// JVP-NEXT:    %[[V2:.*]] = "chlo.ragged_dot"(%arg3, %arg1, %arg2) <{precision_config = [#chlo<precision HIGHEST>, #chlo<precision DEFAULT>], ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}> : (tensor<5x3xf64>, tensor<2x3x4xf64>, tensor<2xi64>) -> tensor<5x4xf64>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.add %[[V2]], %[[V1]] : tensor<5x4xf64>
// JVP-NEXT:    return %[[V0]], %[[V3]] : tensor<5x4xf64>, tensor<5x4xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[C:.*]] = stablehlo.constant dense<0> : tensor<2x2xi64>
// VJP-NEXT:    %[[C_0:.*]] = stablehlo.constant dense<0> : tensor<i64>
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<2x5x3xf64>
// VJP-NEXT:    %[[V0:.*]] = "chlo.ragged_dot"(%arg0, %arg1, %arg2) <{precision_config = [#chlo<precision HIGHEST>, #chlo<precision DEFAULT>], ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}> : (tensor<5x3xf64>, tensor<2x3x4xf64>, tensor<2xi64>) -> tensor<5x4xf64>
// VJP-NEXT:    %[[V1:.*]] = "chlo.ragged_dot"(%arg3, %arg1, %arg2) <{precision_config = [#chlo<precision HIGHEST>, #chlo<precision DEFAULT>], ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [2], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}> : (tensor<5x4xf64>, tensor<2x3x4xf64>, tensor<2xi64>) -> tensor<5x3xf64>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.broadcast_in_dim %arg0, dims = [1, 2] : (tensor<5x3xf64>) -> tensor<2x5x3xf64>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<2xi64>) -> tensor<2x2xi64>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.iota dim = 0 : tensor<2xi64>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.broadcast_in_dim %[[V4]], dims = [0] : (tensor<2xi64>) -> tensor<2x2xi64>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.broadcast_in_dim %[[V4]], dims = [1] : (tensor<2xi64>) -> tensor<2x2xi64>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.compare LE, %[[V6]], %[[V5]] : (tensor<2x2xi64>, tensor<2x2xi64>) -> tensor<2x2xi1>
// VJP-NEXT:    %[[V8:.*]] = stablehlo.select %[[V7]], %[[V3]], %[[C]] : tensor<2x2xi1>, tensor<2x2xi64>
// VJP-NEXT:    %[[V9:.*]] = stablehlo.reduce(%[[V8]] init: %[[C_0]]) applies stablehlo.add across dimensions = [1] : (tensor<2x2xi64>, tensor<i64>) -> tensor<2xi64>
// VJP-NEXT:    %[[V10:.*]] = stablehlo.broadcast_in_dim %[[V9]], dims = [0] : (tensor<2xi64>) -> tensor<2x5xi64>
// VJP-NEXT:    %[[V11:.*]] = stablehlo.iota dim = 0 : tensor<5xi64>
// VJP-NEXT:    %[[V12:.*]] = stablehlo.broadcast_in_dim %[[V11]], dims = [1] : (tensor<5xi64>) -> tensor<2x5xi64>
// VJP-NEXT:    %[[V13:.*]] = stablehlo.compare LT, %[[V12]], %[[V10]] : (tensor<2x5xi64>, tensor<2x5xi64>) -> tensor<2x5xi1>
// VJP-NEXT:    %[[V14:.*]] = stablehlo.broadcast_in_dim %arg2, dims = [0] : (tensor<2xi64>) -> tensor<2x5xi64>
// VJP-NEXT:    %[[V15:.*]] = stablehlo.subtract %[[V10]], %[[V14]] : tensor<2x5xi64>
// VJP-NEXT:    %[[V16:.*]] = stablehlo.compare GE, %[[V12]], %[[V15]] : (tensor<2x5xi64>, tensor<2x5xi64>) -> tensor<2x5xi1>
// VJP-NEXT:    %[[V17:.*]] = stablehlo.and %[[V16]], %[[V13]] : tensor<2x5xi1>
// VJP-NEXT:    %[[V18:.*]] = stablehlo.broadcast_in_dim %[[V17]], dims = [0, 1] : (tensor<2x5xi1>) -> tensor<2x5x3xi1>
// VJP-NEXT:    %[[V19:.*]] = stablehlo.select %[[V18]], %[[V2]], %[[CST]] : tensor<2x5x3xi1>, tensor<2x5x3xf64>
// VJP-NEXT:    %[[V20:.*]] = stablehlo.dot_general %[[V19]], %arg3, contracting_dims = [1] x [0], precision = [HIGHEST, DEFAULT] : (tensor<2x5x3xf64>, tensor<5x4xf64>) -> tensor<2x3x4xf64>
// VJP-NEXT:    return %[[V0]], %[[V1]], %[[V20]] : tensor<5x4xf64>, tensor<5x3xf64>, tensor<2x3x4xf64>

func.func @main(%x: tensor<5x3xf64>, %y: tensor<2x3x4xf64>, %z: tensor<2xi64>) -> tensor<5x4xf64> {
  %0 = "chlo.ragged_dot"(%x, %y, %z) {
    ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1],
      lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>,
    precision_config = [#chlo<precision HIGHEST>, #chlo<precision DEFAULT>]}
    : (tensor<5x3xf64>, tensor<2x3x4xf64>, tensor<2xi64>) -> tensor<5x4xf64>
  return %0 : tensor<5x4xf64>
}
