// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// Two devices hold each part: its cotangents are summed, and its seeds are halved.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]]:2 = "sdy.manual_computation"(%arg0, %arg1) ({
// JVP-NEXT:    ^bb0(%arg2: tensor<2xf64>, %arg3: tensor<2xf64>):
// JVP-NEXT:    %[[V1:.*]] = stablehlo.sine %arg2 : tensor<2xf64>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.cosine %arg2 : tensor<2xf64>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.multiply %[[V2]], %arg3 : tensor<2xf64>
// JVP-NEXT:    "sdy.return"(%[[V1]], %[[V3]]) : (tensor<2xf64>, tensor<2xf64>) -> ()
// JVP-NEXT:    }) {in_shardings = #sdy.sharding_per_value<[<@mesh, [{"d"}]>, <@mesh, [{"d"}]>]>, manual_axes = #sdy<manual_axes{"d", "m"}>, out_shardings = #sdy.sharding_per_value<[<@mesh, [{"d"}]>, <@mesh, [{"d"}]>]>} : (tensor<8xf64>, tensor<8xf64>) -> (tensor<8xf64>, tensor<8xf64>)
// JVP-NEXT:    return %[[V0]]#0, %[[V0]]#1 : tensor<8xf64>, tensor<8xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[V0:.*]]:2 = "sdy.manual_computation"(%arg0, %arg1) ({
// VJP-NEXT:    ^bb0(%arg2: tensor<2xf64>, %arg3: tensor<2xf64>):
// VJP-NEXT:    %[[V1:.*]] = stablehlo.sine %arg2 : tensor<2xf64>
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<5.000000e-01> : tensor<2xf64>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.multiply %arg3, %[[CST]] : tensor<2xf64>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.cosine %arg2 : tensor<2xf64>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.multiply %[[V3]], %[[V2]] : tensor<2xf64>
// VJP-NEXT:    %[[V5:.*]] = "stablehlo.all_reduce"(%[[V4]]) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<{{\[\[}}0, 1], [2, 3], [4, 5], [6, 7{{\]\]}}> : tensor<4x2xi64>, use_global_device_ids}> ({
// VJP-NEXT:    ^bb0(%arg4: tensor<f64>, %arg5: tensor<f64>):
// VJP-NEXT:    %[[V6:.*]] = stablehlo.add %arg4, %arg5 : tensor<f64>
// VJP-NEXT:    stablehlo.return %[[V6]] : tensor<f64>
// VJP-NEXT:    }) : (tensor<2xf64>) -> tensor<2xf64>
// VJP-NEXT:    "sdy.return"(%[[V1]], %[[V5]]) : (tensor<2xf64>, tensor<2xf64>) -> ()
// VJP-NEXT:    }) {in_shardings = #sdy.sharding_per_value<[<@mesh, [{"d"}]>, <@mesh, [{"d"}]>]>, manual_axes = #sdy<manual_axes{"d", "m"}>, out_shardings = #sdy.sharding_per_value<[<@mesh, [{"d"}]>, <@mesh, [{"d"}]>]>} : (tensor<8xf64>, tensor<8xf64>) -> (tensor<8xf64>, tensor<8xf64>)
// VJP-NEXT:    return %[[V0]]#0, %[[V0]]#1 : tensor<8xf64>, tensor<8xf64>

sdy.mesh @mesh = <["d"=4, "m"=2]>
func.func @main(%x: tensor<8xf64> {sdy.sharding = #sdy.sharding<@mesh, [{"d"}]>}) -> tensor<8xf64> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"d"}]>] out_shardings=[<@mesh, [{"d"}]>] manual_axes={"d", "m"} (%part: tensor<2xf64>) {
    %1 = stablehlo.sine %part : tensor<2xf64>
    sdy.return %1 : tensor<2xf64>
  } : (tensor<8xf64>) -> tensor<8xf64>
  return %0 : tensor<8xf64>
}
