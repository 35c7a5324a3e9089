// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// The tangents of the diagonals are multiplied by neighbouring entries of x. A solve with the primal diagonals follows.
// The transpose is a solve with the adjoint, whose outer diagonals are swapped and shifted by one.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// JVP-NEXT:    %[[V0:.*]] = stablehlo.custom_call @cusparse_gtsv2_ffi(%arg0, %arg1, %arg2, %arg3) {{.*}} : (tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3x2xf64>) -> tensor<3x2xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.pad %[[V0]], %[[CST]], low = [-1, 0], high = [1, 0], interior = [0, 0] : (tensor<3x2xf64>, tensor<f64>) -> tensor<3x2xf64>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.broadcast_in_dim %arg6, dims = [0] : (tensor<3xf64>) -> tensor<3x2xf64>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.multiply %[[V2]], %[[V1]] : tensor<3x2xf64>
// JVP-NEXT:    %[[V4:.*]] = stablehlo.broadcast_in_dim %arg5, dims = [0] : (tensor<3xf64>) -> tensor<3x2xf64>
// JVP-NEXT:    %[[V5:.*]] = stablehlo.multiply %[[V4]], %[[V0]] : tensor<3x2xf64>
// JVP-NEXT:    %[[V6:.*]] = stablehlo.pad %[[V0]], %[[CST]], low = [1, 0], high = [-1, 0], interior = [0, 0] : (tensor<3x2xf64>, tensor<f64>) -> tensor<3x2xf64>
// JVP-NEXT:    %[[V7:.*]] = stablehlo.broadcast_in_dim %arg4, dims = [0] : (tensor<3xf64>) -> tensor<3x2xf64>
// JVP-NEXT:    %[[V8:.*]] = stablehlo.multiply %[[V7]], %[[V6]] : tensor<3x2xf64>
// JVP-NEXT:    %[[V9:.*]] = stablehlo.add %[[V8]], %[[V5]] : tensor<3x2xf64>
// JVP-NEXT:    %[[V10:.*]] = stablehlo.add %[[V9]], %[[V3]] : tensor<3x2xf64>
// JVP-NEXT:    %[[V11:.*]] = stablehlo.subtract %arg7, %[[V10]] : tensor<3x2xf64>
// JVP-NEXT:    %[[V12:.*]] = stablehlo.custom_call @cusparse_gtsv2_ffi(%arg0, %arg1, %arg2, %[[V11]]) {{.*}} : (tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3x2xf64>) -> tensor<3x2xf64>
// JVP-NEXT:    return %[[V0]], %[[V12]] : tensor<3x2xf64>, tensor<3x2xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.custom_call @cusparse_gtsv2_ffi(%arg0, %arg1, %arg2, %arg3) {{.*}} : (tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3x2xf64>) -> tensor<3x2xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.pad %arg0, %[[CST]], low = [-1], high = [1], interior = [0] : (tensor<3xf64>, tensor<f64>) -> tensor<3xf64>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.pad %arg2, %[[CST]], low = [1], high = [-1], interior = [0] : (tensor<3xf64>, tensor<f64>) -> tensor<3xf64>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.custom_call @cusparse_gtsv2_ffi(%[[V2]], %arg1, %[[V1]], %arg4) {{.*}} : (tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3x2xf64>) -> tensor<3x2xf64>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.negate %[[V3]] : tensor<3x2xf64>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.pad %[[V0]], %[[CST]], low = [1, 0], high = [-1, 0], interior = [0, 0] : (tensor<3x2xf64>, tensor<f64>) -> tensor<3x2xf64>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.multiply %[[V5]], %[[V4]] : tensor<3x2xf64>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.reduce(%[[V6]] init: %[[CST]]) applies stablehlo.add across dimensions = [1] : (tensor<3x2xf64>, tensor<f64>) -> tensor<3xf64>
// VJP-NEXT:    %[[V8:.*]] = stablehlo.multiply %[[V0]], %[[V4]] : tensor<3x2xf64>
// VJP-NEXT:    %[[V9:.*]] = stablehlo.reduce(%[[V8]] init: %[[CST]]) applies stablehlo.add across dimensions = [1] : (tensor<3x2xf64>, tensor<f64>) -> tensor<3xf64>
// VJP-NEXT:    %[[V10:.*]] = stablehlo.pad %[[V0]], %[[CST]], low = [-1, 0], high = [1, 0], interior = [0, 0] : (tensor<3x2xf64>, tensor<f64>) -> tensor<3x2xf64>
// VJP-NEXT:    %[[V11:.*]] = stablehlo.multiply %[[V10]], %[[V4]] : tensor<3x2xf64>
// VJP-NEXT:    %[[V12:.*]] = stablehlo.reduce(%[[V11]] init: %[[CST]]) applies stablehlo.add across dimensions = [1] : (tensor<3x2xf64>, tensor<f64>) -> tensor<3xf64>
// VJP-NEXT:    return %[[V0]], %[[V7]], %[[V9]], %[[V12]], %[[V3]] : tensor<3x2xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3x2xf64>

func.func @main(%dl: tensor<3xf64>, %d: tensor<3xf64>, %du: tensor<3xf64>, %y: tensor<3x2xf64>) -> tensor<3x2xf64> {
  %0 = stablehlo.custom_call @cusparse_gtsv2_ffi(%dl, %d, %du, %y) {mhlo.backend_config = {},
    operand_layouts = [dense<0> : tensor<1xindex>, dense<0> : tensor<1xindex>, dense<0> : tensor<1xindex>, dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>]}
    : (tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3x2xf64>) -> tensor<3x2xf64>
  return %0 : tensor<3x2xf64>
}
