// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// The extrema of all parts are gathered to find the process of each.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<4x3xf64>
// JVP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<4x6xf64>
// JVP-NEXT:    %[[V0:.*]] = "stablehlo.reduce_scatter"(%arg0) <{replica_groups = dense<{{\[\[}}0, 2], [1, 3{{\]\]}}> : tensor<2x2xi64>, scatter_dimension = 1 : i64}> ({
// JVP-NEXT:    ^bb0(%arg2: tensor<f64>, %arg3: tensor<f64>):
// JVP-NEXT:    %[[V10:.*]] = stablehlo.maximum %arg2, %arg3 : tensor<f64>
// JVP-NEXT:    stablehlo.return %[[V10]] : tensor<f64>
// JVP-NEXT:    }) : (tensor<4x6xf64>) -> tensor<4x3xf64>
// JVP-NEXT:    %[[V1:.*]] = "stablehlo.all_gather"(%[[V0]]) <{all_gather_dim = 1 : i64, replica_groups = dense<{{\[\[}}0, 2], [1, 3{{\]\]}}> : tensor<2x2xi64>}> : (tensor<4x3xf64>) -> tensor<4x6xf64>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.compare EQ, %arg0, %[[V1]] : (tensor<4x6xf64>, tensor<4x6xf64>) -> tensor<4x6xi1>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.select %[[V2]], %arg1, %[[CST_0]] : tensor<4x6xi1>, tensor<4x6xf64>
// JVP-NEXT:    %[[V4:.*]] = "stablehlo.reduce_scatter"(%[[V3]]) <{replica_groups = dense<{{\[\[}}0, 2], [1, 3{{\]\]}}> : tensor<2x2xi64>, scatter_dimension = 1 : i64}> ({
// JVP-NEXT:    ^bb0(%arg2: tensor<f64>, %arg3: tensor<f64>):
// JVP-NEXT:    %[[V10]] = stablehlo.add %arg2, %arg3 : tensor<f64>
// JVP-NEXT:    stablehlo.return %[[V10]] : tensor<f64>
// JVP-NEXT:    }) : (tensor<4x6xf64>) -> tensor<4x3xf64>
// JVP-NEXT:    %[[V5:.*]] = stablehlo.convert %[[V2]] : (tensor<4x6xi1>) -> tensor<4x6xi32>
// JVP-NEXT:    %[[V6:.*]] = "stablehlo.reduce_scatter"(%[[V5]]) <{replica_groups = dense<{{\[\[}}0, 2], [1, 3{{\]\]}}> : tensor<2x2xi64>, scatter_dimension = 1 : i64}> ({
// JVP-NEXT:    ^bb0(%arg2: tensor<i32>, %arg3: tensor<i32>):
// JVP-NEXT:    %[[V10]] = stablehlo.add %arg2, %arg3 : tensor<i32>
// JVP-NEXT:    stablehlo.return %[[V10]] : tensor<i32>
// JVP-NEXT:    }) : (tensor<4x6xi32>) -> tensor<4x3xi32>
// JVP-NEXT:    %[[V7:.*]] = stablehlo.convert %[[V6]] : (tensor<4x3xi32>) -> tensor<4x3xf64>
// JVP-NEXT:    %[[V8:.*]] = stablehlo.divide %[[CST]], %[[V7]] : tensor<4x3xf64>
// JVP-NEXT:    %[[V9:.*]] = stablehlo.multiply %[[V8]], %[[V4]] : tensor<4x3xf64>
// JVP-NEXT:    return %[[V0]], %[[V9]] : tensor<4x3xf64>, tensor<4x3xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<4x3xf64>
// VJP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<4x6xf64>
// VJP-NEXT:    %[[V0:.*]] = "stablehlo.reduce_scatter"(%arg0) <{replica_groups = dense<{{\[\[}}0, 2], [1, 3{{\]\]}}> : tensor<2x2xi64>, scatter_dimension = 1 : i64}> ({
// VJP-NEXT:    ^bb0(%arg2: tensor<f64>, %arg3: tensor<f64>):
// VJP-NEXT:    %[[V10:.*]] = stablehlo.maximum %arg2, %arg3 : tensor<f64>
// VJP-NEXT:    stablehlo.return %[[V10]] : tensor<f64>
// VJP-NEXT:    }) : (tensor<4x6xf64>) -> tensor<4x3xf64>
// VJP-NEXT:    %[[V1:.*]] = "stablehlo.all_gather"(%[[V0]]) <{all_gather_dim = 1 : i64, replica_groups = dense<{{\[\[}}0, 2], [1, 3{{\]\]}}> : tensor<2x2xi64>}> : (tensor<4x3xf64>) -> tensor<4x6xf64>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.compare EQ, %arg0, %[[V1]] : (tensor<4x6xf64>, tensor<4x6xf64>) -> tensor<4x6xi1>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.convert %[[V2]] : (tensor<4x6xi1>) -> tensor<4x6xi32>
// VJP-NEXT:    %[[V4:.*]] = "stablehlo.reduce_scatter"(%[[V3]]) <{replica_groups = dense<{{\[\[}}0, 2], [1, 3{{\]\]}}> : tensor<2x2xi64>, scatter_dimension = 1 : i64}> ({
// VJP-NEXT:    ^bb0(%arg2: tensor<i32>, %arg3: tensor<i32>):
// VJP-NEXT:    %[[V10]] = stablehlo.add %arg2, %arg3 : tensor<i32>
// VJP-NEXT:    stablehlo.return %[[V10]] : tensor<i32>
// VJP-NEXT:    }) : (tensor<4x6xi32>) -> tensor<4x3xi32>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.convert %[[V4]] : (tensor<4x3xi32>) -> tensor<4x3xf64>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.divide %[[CST]], %[[V5]] : tensor<4x3xf64>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.multiply %[[V6]], %arg1 : tensor<4x3xf64>
// VJP-NEXT:    %[[V8:.*]] = "stablehlo.all_gather"(%[[V7]]) <{all_gather_dim = 1 : i64, replica_groups = dense<{{\[\[}}0, 2], [1, 3{{\]\]}}> : tensor<2x2xi64>}> : (tensor<4x3xf64>) -> tensor<4x6xf64>
// VJP-NEXT:    %[[V9:.*]] = stablehlo.select %[[V2]], %[[V8]], %[[CST_0]] : tensor<4x6xi1>, tensor<4x6xf64>
// VJP-NEXT:    return %[[V0]], %[[V9]] : tensor<4x3xf64>, tensor<4x6xf64>

func.func @main(%x: tensor<4x6xf64>) -> tensor<4x3xf64> {
  %0 = "stablehlo.reduce_scatter"(%x) ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %s = stablehlo.maximum %a, %b : tensor<f64>
    stablehlo.return %s : tensor<f64>
  }) {scatter_dimension = 1 : i64, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>} : (tensor<4x6xf64>) -> tensor<4x3xf64>
  return %0 : tensor<4x3xf64>
}
