// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// With constant padding, the op becomes a convolution.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[C:.*]] = stablehlo.constant dense<[[1, 0]]> : tensor<1x2xi32>
// JVP-NEXT:    %[[V0:.*]] = "stablehlo.dynamic_conv"(%arg0, %arg1, %[[C]]) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>, feature_group_count = 1 : i64}> : (tensor<?x5x3xf64>, tensor<2x3x4xf64>, tensor<1x2xi32>) -> tensor<?x5x4xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.convolution(%arg0, %arg3) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 0]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<?x5x3xf64>, tensor<2x3x4xf64>) -> tensor<?x5x4xf64>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.convolution(%arg2, %arg1) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {pad = [[1, 0]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<?x5x3xf64>, tensor<2x3x4xf64>) -> tensor<?x5x4xf64>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.add %[[V2]], %[[V1]] : tensor<?x5x4xf64>
// JVP-NEXT:    return %[[V0]], %[[V3]] : tensor<?x5x4xf64>, tensor<?x5x4xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[C:.*]] = stablehlo.constant dense<[[1, 0]]> : tensor<1x2xi32>
// VJP-NEXT:    %[[V0:.*]] = "stablehlo.dynamic_conv"(%arg0, %arg1, %[[C]]) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>, feature_group_count = 1 : i64}> : (tensor<?x5x3xf64>, tensor<2x3x4xf64>, tensor<1x2xi32>) -> tensor<?x5x4xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.reverse %arg1, dims = [0] : tensor<2x3x4xf64>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.convolution(%arg2, %[[V1]]) dim_numbers = [b, 0, f]x[0, o, i]->[b, 0, f], window = {stride = [1], pad = [[0, 1]], lhs_dilate = [1], rhs_dilate = [1]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<?x5x4xf64>, tensor<2x3x4xf64>) -> tensor<?x5x3xf64>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.convolution(%arg0, %arg2) dim_numbers = [f, 0, b]x[i, 0, o]->[0, b, f], window = {stride = [1], pad = [[1, 0]], lhs_dilate = [1], rhs_dilate = [1]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<?x5x3xf64>, tensor<?x5x4xf64>) -> tensor<2x3x4xf64>
// VJP-NEXT:    return %[[V0]], %[[V2]], %[[V3]] : tensor<?x5x4xf64>, tensor<?x5x3xf64>, tensor<2x3x4xf64>

func.func @main(%x: tensor<?x5x3xf64>, %w: tensor<2x3x4xf64>) -> tensor<?x5x4xf64> {
  %0 = stablehlo.constant dense<[[1, 0]]> : tensor<1x2xi32>
  %1 = "stablehlo.dynamic_conv"(%x, %w, %0) {dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>,
    batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<?x5x3xf64>, tensor<2x3x4xf64>, tensor<1x2xi32>) -> tensor<?x5x4xf64>
  return %1 : tensor<?x5x4xf64>
}
