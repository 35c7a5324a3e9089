// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// The transpose is the inverse permutation.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = "stablehlo.collective_permute"(%arg0) <{source_target_pairs = dense<{{\[\[}}0, 1], [1, 2{{\]\]}}> : tensor<2x2xi64>}> : (tensor<4x6xf64>) -> tensor<4x6xf64>
// JVP-NEXT:    %[[V1:.*]] = "stablehlo.collective_permute"(%arg1) <{source_target_pairs = dense<{{\[\[}}0, 1], [1, 2{{\]\]}}> : tensor<2x2xi64>}> : (tensor<4x6xf64>) -> tensor<4x6xf64>
// JVP-NEXT:    return %[[V0]], %[[V1]] : tensor<4x6xf64>, tensor<4x6xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[V0:.*]] = "stablehlo.collective_permute"(%arg0) <{source_target_pairs = dense<{{\[\[}}0, 1], [1, 2{{\]\]}}> : tensor<2x2xi64>}> : (tensor<4x6xf64>) -> tensor<4x6xf64>
// VJP-NEXT:    %[[V1:.*]] = "stablehlo.collective_permute"(%arg1) <{source_target_pairs = dense<{{\[\[}}1, 0], [2, 1{{\]\]}}> : tensor<2x2xi64>}> : (tensor<4x6xf64>) -> tensor<4x6xf64>
// VJP-NEXT:    return %[[V0]], %[[V1]] : tensor<4x6xf64>, tensor<4x6xf64>

func.func @main(%x: tensor<4x6xf64>) -> tensor<4x6xf64> {
  %0 = "stablehlo.collective_permute"(%x) {source_target_pairs = dense<[[0, 1], [1, 2]]> : tensor<2x2xi64>} : (tensor<4x6xf64>) -> tensor<4x6xf64>
  return %0 : tensor<4x6xf64>
}
