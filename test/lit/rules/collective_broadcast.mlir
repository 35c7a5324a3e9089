// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// The transpose is a sum along a tree of processes; only the source keeps it.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = "stablehlo.collective_broadcast"(%arg0) <{replica_groups = dense<{{\[\[}}0, 1, 2{{\]\]}}> : tensor<1x3xi64>}> : (tensor<4x6xf64>) -> tensor<4x6xf64>
// JVP-NEXT:    %[[V1:.*]] = "stablehlo.collective_broadcast"(%arg1) <{replica_groups = dense<{{\[\[}}0, 1, 2{{\]\]}}> : tensor<1x3xi64>}> : (tensor<4x6xf64>) -> tensor<4x6xf64>
// JVP-NEXT:    return %[[V0]], %[[V1]] : tensor<4x6xf64>, tensor<4x6xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[V0:.*]] = "stablehlo.collective_broadcast"(%arg0) <{replica_groups = dense<{{\[\[}}0, 1, 2{{\]\]}}> : tensor<1x3xi64>}> : (tensor<4x6xf64>) -> tensor<4x6xf64>
// VJP-NEXT:    %[[V1:.*]] = "stablehlo.collective_permute"(%arg1) <{source_target_pairs = dense<{{\[\[}}1, 0{{\]\]}}> : tensor<1x2xi64>}> : (tensor<4x6xf64>) -> tensor<4x6xf64>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.add %arg1, %[[V1]] : tensor<4x6xf64>
// VJP-NEXT:    %[[V3:.*]] = "stablehlo.collective_permute"(%[[V2]]) <{source_target_pairs = dense<{{\[\[}}2, 0{{\]\]}}> : tensor<1x2xi64>}> : (tensor<4x6xf64>) -> tensor<4x6xf64>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.add %[[V2]], %[[V3]] : tensor<4x6xf64>
// VJP-NEXT:    %[[V5:.*]] = "stablehlo.collective_permute"(%[[V4]]) <{source_target_pairs = dense<0> : tensor<1x2xi64>}> : (tensor<4x6xf64>) -> tensor<4x6xf64>
// VJP-NEXT:    return %[[V0]], %[[V5]] : tensor<4x6xf64>, tensor<4x6xf64>

func.func @main(%x: tensor<4x6xf64>) -> tensor<4x6xf64> {
  %0 = "stablehlo.collective_broadcast"(%x) {replica_groups = dense<[[0, 1, 2]]> : tensor<1x3xi64>} : (tensor<4x6xf64>) -> tensor<4x6xf64>
  return %0 : tensor<4x6xf64>
}
