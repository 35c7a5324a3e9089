// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// The product rule on the gathered factors of a group.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = "stablehlo.all_reduce"(%arg0) <{replica_groups = dense<{{\[\[}}0, 2], [1, 3{{\]\]}}> : tensor<2x2xi64>}> ({
// JVP-NEXT:    ^bb0(%arg2: tensor<f64>, %arg3: tensor<f64>):
// JVP-NEXT:    %[[V13:.*]] = stablehlo.multiply %arg2, %arg3 : tensor<f64>
// JVP-NEXT:    stablehlo.return %[[V13]] : tensor<f64>
// JVP-NEXT:    }) : (tensor<f64>) -> tensor<f64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.reshape %arg1 : (tensor<f64>) -> tensor<1xf64>
// JVP-NEXT:    %[[V2:.*]] = "stablehlo.all_gather"(%[[V1]]) <{all_gather_dim = 0 : i64, replica_groups = dense<{{\[\[}}0, 2], [1, 3{{\]\]}}> : tensor<2x2xi64>}> : (tensor<1xf64>) -> tensor<2xf64>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.slice %[[V2]] [1:2] : (tensor<2xf64>) -> tensor<1xf64>
// JVP-NEXT:    %[[V4:.*]] = stablehlo.reshape %arg0 : (tensor<f64>) -> tensor<1xf64>
// JVP-NEXT:    %[[V5:.*]] = "stablehlo.all_gather"(%[[V4]]) <{all_gather_dim = 0 : i64, replica_groups = dense<{{\[\[}}0, 2], [1, 3{{\]\]}}> : tensor<2x2xi64>}> : (tensor<1xf64>) -> tensor<2xf64>
// JVP-NEXT:    %[[V6:.*]] = stablehlo.slice %[[V5]] [0:1] : (tensor<2xf64>) -> tensor<1xf64>
// JVP-NEXT:    %[[V7:.*]] = stablehlo.multiply %[[V6]], %[[V3]] : tensor<1xf64>
// JVP-NEXT:    %[[V8:.*]] = stablehlo.slice %[[V5]] [1:2] : (tensor<2xf64>) -> tensor<1xf64>
// JVP-NEXT:    %[[V9:.*]] = stablehlo.slice %[[V2]] [0:1] : (tensor<2xf64>) -> tensor<1xf64>
// JVP-NEXT:    %[[V10:.*]] = stablehlo.multiply %[[V9]], %[[V8]] : tensor<1xf64>
// JVP-NEXT:    %[[V11:.*]] = stablehlo.add %[[V10]], %[[V7]] : tensor<1xf64>
// JVP-NEXT:    %[[V12:.*]] = stablehlo.reshape %[[V11]] : (tensor<1xf64>) -> tensor<f64>
// JVP-NEXT:    return %[[V0]], %[[V12]] : tensor<f64>, tensor<f64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[V0:.*]] = "stablehlo.all_reduce"(%arg0) <{replica_groups = dense<{{\[\[}}0, 2], [1, 3{{\]\]}}> : tensor<2x2xi64>}> ({
// VJP-NEXT:    ^bb0(%arg2: tensor<f64>, %arg3: tensor<f64>):
// VJP-NEXT:    %[[V13:.*]] = stablehlo.multiply %arg2, %arg3 : tensor<f64>
// VJP-NEXT:    stablehlo.return %[[V13]] : tensor<f64>
// VJP-NEXT:    }) : (tensor<f64>) -> tensor<f64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.reshape %arg1 : (tensor<f64>) -> tensor<1xf64>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.reshape %arg0 : (tensor<f64>) -> tensor<1xf64>
// VJP-NEXT:    %[[V3:.*]] = "stablehlo.all_gather"(%[[V2]]) <{all_gather_dim = 0 : i64, replica_groups = dense<{{\[\[}}0, 2], [1, 3{{\]\]}}> : tensor<2x2xi64>}> : (tensor<1xf64>) -> tensor<2xf64>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.slice %[[V3]] [1:2] : (tensor<2xf64>) -> tensor<1xf64>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.multiply %[[V4]], %[[V1]] : tensor<1xf64>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.pad %[[V5]], %[[CST]], low = [0], high = [1], interior = [0] : (tensor<1xf64>, tensor<f64>) -> tensor<2xf64>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.slice %[[V3]] [0:1] : (tensor<2xf64>) -> tensor<1xf64>
// VJP-NEXT:    %[[V8:.*]] = stablehlo.multiply %[[V7]], %[[V1]] : tensor<1xf64>
// VJP-NEXT:    %[[V9:.*]] = stablehlo.pad %[[V8]], %[[CST]], low = [1], high = [0], interior = [0] : (tensor<1xf64>, tensor<f64>) -> tensor<2xf64>
// VJP-NEXT:    %[[V10:.*]] = stablehlo.add %[[V9]], %[[V6]] : tensor<2xf64>
// VJP-NEXT:    %[[V11:.*]] = "stablehlo.reduce_scatter"(%[[V10]]) <{replica_groups = dense<{{\[\[}}0, 2], [1, 3{{\]\]}}> : tensor<2x2xi64>, scatter_dimension = 0 : i64}> ({
// VJP-NEXT:    ^bb0(%arg2: tensor<f64>, %arg3: tensor<f64>):
// VJP-NEXT:    %[[V13]] = stablehlo.add %arg2, %arg3 : tensor<f64>
// VJP-NEXT:    stablehlo.return %[[V13]] : tensor<f64>
// VJP-NEXT:    }) : (tensor<2xf64>) -> tensor<1xf64>
// VJP-NEXT:    %[[V12:.*]] = stablehlo.reshape %[[V11]] : (tensor<1xf64>) -> tensor<f64>
// VJP-NEXT:    return %[[V0]], %[[V12]] : tensor<f64>, tensor<f64>

func.func @main(%x: tensor<f64>) -> tensor<f64> {
  %0 = "stablehlo.all_reduce"(%x) ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %s = stablehlo.multiply %a, %b : tensor<f64>
    stablehlo.return %s : tensor<f64>
  }) {replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>} : (tensor<f64>) -> tensor<f64>
  return %0 : tensor<f64>
}
