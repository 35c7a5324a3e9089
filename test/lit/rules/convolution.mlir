// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// The product rule. Transposed toward the input, the kernel is reversed, and its groups of output features become
// groups of input features; toward the kernel, batch and features are swapped, and groups of features become
// groups of the batch. The stride of 2 leaves a remainder, so that the paddings differ.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [2], pad = {{\[\[}}0, 0{{\]\]}}, rhs_dilate = [1]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<2x6x4xf64>, tensor<3x2x6xf64>) -> tensor<2x2x6xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.convolution(%arg0, %arg3) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [2], pad = {{\[\[}}0, 0{{\]\]}}, rhs_dilate = [1]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<2x6x4xf64>, tensor<3x2x6xf64>) -> tensor<2x2x6xf64>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.convolution(%arg2, %arg1) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [2], pad = {{\[\[}}0, 0{{\]\]}}, rhs_dilate = [1]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<2x6x4xf64>, tensor<3x2x6xf64>) -> tensor<2x2x6xf64>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.add %[[V2]], %[[V1]] : tensor<2x2x6xf64>
// JVP-NEXT:    return %[[V0]], %[[V3]] : tensor<2x2x6xf64>, tensor<2x2x6xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[V0:.*]] = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [2], pad = {{\[\[}}0, 0{{\]\]}}, rhs_dilate = [1]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<2x6x4xf64>, tensor<3x2x6xf64>) -> tensor<2x2x6xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.reverse %arg1, dims = [0] : tensor<3x2x6xf64>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.reshape %[[V1]] : (tensor<3x2x6xf64>) -> tensor<3x2x2x3xf64>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.transpose %[[V2]], dims = [0, 2, 1, 3] : (tensor<3x2x2x3xf64>) -> tensor<3x2x2x3xf64>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.reshape %[[V3]] : (tensor<3x2x2x3xf64>) -> tensor<3x4x3xf64>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.convolution(%arg2, %[[V4]]) dim_numbers = [b, 0, f]x[0, o, i]->[b, 0, f], window = {stride = [1], pad = {{\[\[}}2, 3{{\]\]}}, lhs_dilate = [2], rhs_dilate = [1]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<2x2x6xf64>, tensor<3x4x3xf64>) -> tensor<2x6x4xf64>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.convolution(%arg0, %arg2) dim_numbers = [f, 0, b]x[i, 0, o]->[0, b, f], window = {stride = [1], pad = {{\[\[}}0, -1{{\]\]}}, lhs_dilate = [1], rhs_dilate = [2]} {batch_group_count = 2 : i64, feature_group_count = 1 : i64} : (tensor<2x6x4xf64>, tensor<2x2x6xf64>) -> tensor<3x2x6xf64>
// VJP-NEXT:    return %[[V0]], %[[V5]], %[[V6]] : tensor<2x2x6xf64>, tensor<2x6x4xf64>, tensor<3x2x6xf64>

func.func @main(%x: tensor<2x6x4xf64>, %w: tensor<3x2x6xf64>) -> tensor<2x2x6xf64> {
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [2], pad = [[0, 0]], rhs_dilate = [1]}
    {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<2x6x4xf64>, tensor<3x2x6xf64>) -> tensor<2x2x6xf64>
  return %0 : tensor<2x2x6xf64>
}
