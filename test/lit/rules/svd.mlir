// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// If only values are requested, another call computes the thin vectors that the derivative needs.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3x3xf64>
// JVP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// JVP-NEXT:    %[[V0:.*]]:5 = stablehlo.custom_call @lapack_dgesdd_ffi(%arg0) {api_version = 4 : i32, backend_config = {mode = 78 : ui8}} : (tensor<4x3xf64>) -> (tensor<4x3xf64>, tensor<3xf64>, tensor<4x4xf64>, tensor<3x3xf64>, tensor<i32>)
// JVP-NEXT:    %[[V1:.*]]:5 = stablehlo.custom_call @lapack_dgesdd_ffi(%arg0) {api_version = 4 : i32, backend_config = {mode = 83 : ui8}} : (tensor<4x3xf64>) -> (tensor<4x3xf64>, tensor<3xf64>, tensor<4x3xf64>, tensor<3x3xf64>, tensor<i32>)
// JVP-NEXT:    %[[V2:.*]] = stablehlo.transpose %[[V1]]#3, dims = [1, 0] : (tensor<3x3xf64>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.dot_general %arg1, %[[V2]], contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<4x3xf64>, tensor<3x3xf64>) -> tensor<4x3xf64>
// JVP-NEXT:    %[[V4:.*]] = stablehlo.transpose %[[V1]]#2, dims = [1, 0] : (tensor<4x3xf64>) -> tensor<3x4xf64>
// JVP-NEXT:    %[[V5:.*]] = stablehlo.dot_general %[[V4]], %[[V3]], contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x4xf64>, tensor<4x3xf64>) -> tensor<3x3xf64>
// JVP-NEXT:    %[[V6:.*]] = stablehlo.iota dim = 0 : tensor<3xi32>
// JVP-NEXT:    %[[V7:.*]] = stablehlo.broadcast_in_dim %[[V6]], dims = [1] : (tensor<3xi32>) -> tensor<3x3xi32>
// JVP-NEXT:    %[[V8:.*]] = stablehlo.broadcast_in_dim %[[V6]], dims = [0] : (tensor<3xi32>) -> tensor<3x3xi32>
// JVP-NEXT:    %[[V9:.*]] = stablehlo.compare EQ, %[[V8]], %[[V7]] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
// JVP-NEXT:    %[[V10:.*]] = stablehlo.select %[[V9]], %[[V5]], %[[CST]] : tensor<3x3xi1>, tensor<3x3xf64>
// JVP-NEXT:    %[[V11:.*]] = stablehlo.reduce(%[[V10]] init: %[[CST_0]]) applies stablehlo.add across dimensions = [1] : (tensor<3x3xf64>, tensor<f64>) -> tensor<3xf64>
// JVP-NEXT:    return %[[V0]]#1, %[[V11]] : tensor<3xf64>, tensor<3xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3x3xf64>
// VJP-NEXT:    %[[V0:.*]]:5 = stablehlo.custom_call @lapack_dgesdd_ffi(%arg0) {api_version = 4 : i32, backend_config = {mode = 78 : ui8}} : (tensor<4x3xf64>) -> (tensor<4x3xf64>, tensor<3xf64>, tensor<4x4xf64>, tensor<3x3xf64>, tensor<i32>)
// VJP-NEXT:    %[[V1:.*]]:5 = stablehlo.custom_call @lapack_dgesdd_ffi(%arg0) {api_version = 4 : i32, backend_config = {mode = 83 : ui8}} : (tensor<4x3xf64>) -> (tensor<4x3xf64>, tensor<3xf64>, tensor<4x3xf64>, tensor<3x3xf64>, tensor<i32>)
// VJP-NEXT:    %[[V2:.*]] = stablehlo.transpose %[[V1]]#3, dims = [1, 0] : (tensor<3x3xf64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.broadcast_in_dim %arg1, dims = [0] : (tensor<3xf64>) -> tensor<3x3xf64>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.iota dim = 0 : tensor<3xi32>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.broadcast_in_dim %[[V4]], dims = [1] : (tensor<3xi32>) -> tensor<3x3xi32>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.broadcast_in_dim %[[V4]], dims = [0] : (tensor<3xi32>) -> tensor<3x3xi32>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.compare EQ, %[[V6]], %[[V5]] : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
// VJP-NEXT:    %[[V8:.*]] = stablehlo.select %[[V7]], %[[V3]], %[[CST]] : tensor<3x3xi1>, tensor<3x3xf64>
// VJP-NEXT:    %[[V9:.*]] = stablehlo.transpose %[[V1]]#2, dims = [1, 0] : (tensor<4x3xf64>) -> tensor<3x4xf64>
// VJP-NEXT:    %[[V10:.*]] = stablehlo.dot_general %[[V9]], %[[V8]], contracting_dims = [0] x [0], precision = [HIGHEST, HIGHEST] : (tensor<3x4xf64>, tensor<3x3xf64>) -> tensor<4x3xf64>
// VJP-NEXT:    %[[V11:.*]] = stablehlo.dot_general %[[V10]], %[[V2]], contracting_dims = [1] x [1], precision = [HIGHEST, HIGHEST] : (tensor<4x3xf64>, tensor<3x3xf64>) -> tensor<4x3xf64>
// VJP-NEXT:    return %[[V0]]#1, %[[V11]] : tensor<3xf64>, tensor<4x3xf64>

func.func @main(%x: tensor<4x3xf64>) -> tensor<3xf64> {
  %0:5 = stablehlo.custom_call @lapack_dgesdd_ffi(%x) {api_version = 4 : i32, backend_config = {mode = 78 : ui8}} : (tensor<4x3xf64>) -> (tensor<4x3xf64>, tensor<3xf64>, tensor<4x4xf64>, tensor<3x3xf64>, tensor<i32>)
  return %0#1 : tensor<3xf64>
}
