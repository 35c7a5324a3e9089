// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// A sum over a group is its own transpose.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = "stablehlo.cross-replica-sum"(%arg0) <{replica_groups = dense<{{\[\[}}0, 2], [1, 3{{\]\]}}> : tensor<2x2xi64>}> : (tensor<4x6xf64>) -> tensor<4x6xf64>
// JVP-NEXT:    %[[V1:.*]] = "stablehlo.cross-replica-sum"(%arg1) <{replica_groups = dense<{{\[\[}}0, 2], [1, 3{{\]\]}}> : tensor<2x2xi64>}> : (tensor<4x6xf64>) -> tensor<4x6xf64>
// JVP-NEXT:    return %[[V0]], %[[V1]] : tensor<4x6xf64>, tensor<4x6xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[V0:.*]] = "stablehlo.cross-replica-sum"(%arg0) <{replica_groups = dense<{{\[\[}}0, 2], [1, 3{{\]\]}}> : tensor<2x2xi64>}> : (tensor<4x6xf64>) -> tensor<4x6xf64>
// VJP-NEXT:    %[[V1:.*]] = "stablehlo.cross-replica-sum"(%arg1) <{replica_groups = dense<{{\[\[}}0, 2], [1, 3{{\]\]}}> : tensor<2x2xi64>}> : (tensor<4x6xf64>) -> tensor<4x6xf64>
// VJP-NEXT:    return %[[V0]], %[[V1]] : tensor<4x6xf64>, tensor<4x6xf64>

func.func @main(%x: tensor<4x6xf64>) -> tensor<4x6xf64> {
  %0 = "stablehlo.cross-replica-sum"(%x) {replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>} : (tensor<4x6xf64>) -> tensor<4x6xf64>
  return %0 : tensor<4x6xf64>
}
