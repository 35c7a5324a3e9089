// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// Ties share the tangent evenly; the sums are over the same groups.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<4x6xf64>
// JVP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<4x6xf64>
// JVP-NEXT:    %[[V0:.*]] = "stablehlo.all_reduce"(%arg0) <{replica_groups = dense<{{\[\[}}0, 2], [1, 3{{\]\]}}> : tensor<2x2xi64>}> ({
// JVP-NEXT:    ^bb0(%arg2: tensor<f64>, %arg3: tensor<f64>):
// JVP-NEXT:    %[[V9:.*]] = stablehlo.maximum %arg2, %arg3 : tensor<f64>
// JVP-NEXT:    stablehlo.return %[[V9]] : tensor<f64>
// JVP-NEXT:    }) : (tensor<4x6xf64>) -> tensor<4x6xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.compare EQ, %arg0, %[[V0]] : (tensor<4x6xf64>, tensor<4x6xf64>) -> tensor<4x6xi1>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.select %[[V1]], %arg1, %[[CST_0]] : tensor<4x6xi1>, tensor<4x6xf64>
// JVP-NEXT:    %[[V3:.*]] = "stablehlo.all_reduce"(%[[V2]]) <{replica_groups = dense<{{\[\[}}0, 2], [1, 3{{\]\]}}> : tensor<2x2xi64>}> ({
// JVP-NEXT:    ^bb0(%arg2: tensor<f64>, %arg3: tensor<f64>):
// JVP-NEXT:    %[[V9]] = stablehlo.add %arg2, %arg3 : tensor<f64>
// JVP-NEXT:    stablehlo.return %[[V9]] : tensor<f64>
// JVP-NEXT:    }) : (tensor<4x6xf64>) -> tensor<4x6xf64>
// JVP-NEXT:    %[[V4:.*]] = stablehlo.convert %[[V1]] : (tensor<4x6xi1>) -> tensor<4x6xi32>
// JVP-NEXT:    %[[V5:.*]] = "stablehlo.all_reduce"(%[[V4]]) <{replica_groups = dense<{{\[\[}}0, 2], [1, 3{{\]\]}}> : tensor<2x2xi64>}> ({
// JVP-NEXT:    ^bb0(%arg2: tensor<i32>, %arg3: tensor<i32>):
// JVP-NEXT:    %[[V9]] = stablehlo.add %arg2, %arg3 : tensor<i32>
// JVP-NEXT:    stablehlo.return %[[V9]] : tensor<i32>
// JVP-NEXT:    }) : (tensor<4x6xi32>) -> tensor<4x6xi32>
// JVP-NEXT:    %[[V6:.*]] = stablehlo.convert %[[V5]] : (tensor<4x6xi32>) -> tensor<4x6xf64>
// JVP-NEXT:    %[[V7:.*]] = stablehlo.divide %[[CST]], %[[V6]] : tensor<4x6xf64>
// JVP-NEXT:    %[[V8:.*]] = stablehlo.multiply %[[V7]], %[[V3]] : tensor<4x6xf64>
// JVP-NEXT:    return %[[V0]], %[[V8]] : tensor<4x6xf64>, tensor<4x6xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<4x6xf64>
// VJP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<4x6xf64>
// VJP-NEXT:    %[[V0:.*]] = "stablehlo.all_reduce"(%arg0) <{replica_groups = dense<{{\[\[}}0, 2], [1, 3{{\]\]}}> : tensor<2x2xi64>}> ({
// VJP-NEXT:    ^bb0(%arg2: tensor<f64>, %arg3: tensor<f64>):
// VJP-NEXT:    %[[V9:.*]] = stablehlo.maximum %arg2, %arg3 : tensor<f64>
// VJP-NEXT:    stablehlo.return %[[V9]] : tensor<f64>
// VJP-NEXT:    }) : (tensor<4x6xf64>) -> tensor<4x6xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.compare EQ, %arg0, %[[V0]] : (tensor<4x6xf64>, tensor<4x6xf64>) -> tensor<4x6xi1>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.convert %[[V1]] : (tensor<4x6xi1>) -> tensor<4x6xi32>
// VJP-NEXT:    %[[V3:.*]] = "stablehlo.all_reduce"(%[[V2]]) <{replica_groups = dense<{{\[\[}}0, 2], [1, 3{{\]\]}}> : tensor<2x2xi64>}> ({
// VJP-NEXT:    ^bb0(%arg2: tensor<i32>, %arg3: tensor<i32>):
// VJP-NEXT:    %[[V9]] = stablehlo.add %arg2, %arg3 : tensor<i32>
// VJP-NEXT:    stablehlo.return %[[V9]] : tensor<i32>
// VJP-NEXT:    }) : (tensor<4x6xi32>) -> tensor<4x6xi32>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.convert %[[V3]] : (tensor<4x6xi32>) -> tensor<4x6xf64>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.divide %[[CST]], %[[V4]] : tensor<4x6xf64>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.multiply %[[V5]], %arg1 : tensor<4x6xf64>
// VJP-NEXT:    %[[V7:.*]] = "stablehlo.all_reduce"(%[[V6]]) <{replica_groups = dense<{{\[\[}}0, 2], [1, 3{{\]\]}}> : tensor<2x2xi64>}> ({
// VJP-NEXT:    ^bb0(%arg2: tensor<f64>, %arg3: tensor<f64>):
// VJP-NEXT:    %[[V9]] = stablehlo.add %arg2, %arg3 : tensor<f64>
// VJP-NEXT:    stablehlo.return %[[V9]] : tensor<f64>
// VJP-NEXT:    }) : (tensor<4x6xf64>) -> tensor<4x6xf64>
// VJP-NEXT:    %[[V8:.*]] = stablehlo.select %[[V1]], %[[V7]], %[[CST_0]] : tensor<4x6xi1>, tensor<4x6xf64>
// VJP-NEXT:    return %[[V0]], %[[V8]] : tensor<4x6xf64>, tensor<4x6xf64>

func.func @main(%x: tensor<4x6xf64>) -> tensor<4x6xf64> {
  %0 = "stablehlo.all_reduce"(%x) ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %s = stablehlo.maximum %a, %b : tensor<f64>
    stablehlo.return %s : tensor<f64>
  }) {replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>} : (tensor<4x6xf64>) -> tensor<4x6xf64>
  return %0 : tensor<4x6xf64>
}
