// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// The transpose gathers the parts of the cotangent.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = "stablehlo.reduce_scatter"(%arg0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<{{\[\[}}0, 2], [1, 3{{\]\]}}> : tensor<2x2xi64>, scatter_dimension = 1 : i64, use_global_device_ids}> ({
// JVP-NEXT:    ^bb0(%arg2: tensor<f64>, %arg3: tensor<f64>):
// JVP-NEXT:    %[[V2:.*]] = stablehlo.add %arg2, %arg3 : tensor<f64>
// JVP-NEXT:    stablehlo.return %[[V2]] : tensor<f64>
// JVP-NEXT:    }) : (tensor<4x6xf64>) -> tensor<4x3xf64>
// JVP-NEXT:    %[[V1:.*]] = "stablehlo.reduce_scatter"(%arg1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<{{\[\[}}0, 2], [1, 3{{\]\]}}> : tensor<2x2xi64>, scatter_dimension = 1 : i64, use_global_device_ids}> ({
// JVP-NEXT:    ^bb0(%arg2: tensor<f64>, %arg3: tensor<f64>):
// JVP-NEXT:    %[[V2]] = stablehlo.add %arg2, %arg3 : tensor<f64>
// JVP-NEXT:    stablehlo.return %[[V2]] : tensor<f64>
// JVP-NEXT:    }) : (tensor<4x6xf64>) -> tensor<4x3xf64>
// JVP-NEXT:    return %[[V0]], %[[V1]] : tensor<4x3xf64>, tensor<4x3xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[V0:.*]] = "stablehlo.reduce_scatter"(%arg0) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<{{\[\[}}0, 2], [1, 3{{\]\]}}> : tensor<2x2xi64>, scatter_dimension = 1 : i64, use_global_device_ids}> ({
// VJP-NEXT:    ^bb0(%arg2: tensor<f64>, %arg3: tensor<f64>):
// VJP-NEXT:    %[[V2:.*]] = stablehlo.add %arg2, %arg3 : tensor<f64>
// VJP-NEXT:    stablehlo.return %[[V2]] : tensor<f64>
// VJP-NEXT:    }) : (tensor<4x6xf64>) -> tensor<4x3xf64>
// VJP-NEXT:    %[[V1:.*]] = "stablehlo.all_gather"(%arg1) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<{{\[\[}}0, 2], [1, 3{{\]\]}}> : tensor<2x2xi64>, use_global_device_ids}> : (tensor<4x3xf64>) -> tensor<4x6xf64>
// VJP-NEXT:    return %[[V0]], %[[V1]] : tensor<4x3xf64>, tensor<4x6xf64>

func.func @main(%x: tensor<4x6xf64>) -> tensor<4x3xf64> {
  %0 = "stablehlo.reduce_scatter"(%x) ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %s = stablehlo.add %a, %b : tensor<f64>
    stablehlo.return %s : tensor<f64>
  }) {scatter_dimension = 1 : i64, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<4x6xf64>) -> tensor<4x3xf64>
  return %0 : tensor<4x3xf64>
}
