// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// The transpose has split and concatenation dimensions swapped. One op may have several operands.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]]:2 = "stablehlo.all_to_all"(%arg0, %arg1) <{concat_dimension = 0 : i64, replica_groups = dense<{{\[\[}}0, 2], [1, 3{{\]\]}}> : tensor<2x2xi64>, split_count = 2 : i64, split_dimension = 1 : i64}> : (tensor<4x6xf64>, tensor<4x6xf64>) -> (tensor<8x3xf64>, tensor<8x3xf64>)
// JVP-NEXT:    %[[V1:.*]]:2 = "stablehlo.all_to_all"(%arg2, %arg3) <{concat_dimension = 0 : i64, replica_groups = dense<{{\[\[}}0, 2], [1, 3{{\]\]}}> : tensor<2x2xi64>, split_count = 2 : i64, split_dimension = 1 : i64}> : (tensor<4x6xf64>, tensor<4x6xf64>) -> (tensor<8x3xf64>, tensor<8x3xf64>)
// JVP-NEXT:    return %[[V0]]#0, %[[V0]]#1, %[[V1]]#0, %[[V1]]#1 : tensor<8x3xf64>, tensor<8x3xf64>, tensor<8x3xf64>, tensor<8x3xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[V0:.*]]:2 = "stablehlo.all_to_all"(%arg0, %arg1) <{concat_dimension = 0 : i64, replica_groups = dense<{{\[\[}}0, 2], [1, 3{{\]\]}}> : tensor<2x2xi64>, split_count = 2 : i64, split_dimension = 1 : i64}> : (tensor<4x6xf64>, tensor<4x6xf64>) -> (tensor<8x3xf64>, tensor<8x3xf64>)
// VJP-NEXT:    %[[V1:.*]]:2 = "stablehlo.all_to_all"(%arg2, %arg3) <{concat_dimension = 1 : i64, replica_groups = dense<{{\[\[}}0, 2], [1, 3{{\]\]}}> : tensor<2x2xi64>, split_count = 2 : i64, split_dimension = 0 : i64}> : (tensor<8x3xf64>, tensor<8x3xf64>) -> (tensor<4x6xf64>, tensor<4x6xf64>)
// VJP-NEXT:    return %[[V0]]#0, %[[V0]]#1, %[[V1]]#0, %[[V1]]#1 : tensor<8x3xf64>, tensor<8x3xf64>, tensor<4x6xf64>, tensor<4x6xf64>

func.func @main(%x: tensor<4x6xf64>, %y: tensor<4x6xf64>) -> (tensor<8x3xf64>, tensor<8x3xf64>) {
  %0:2 = "stablehlo.all_to_all"(%x, %y) {split_dimension = 1 : i64, concat_dimension = 0 : i64, split_count = 2 : i64, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>} : (tensor<4x6xf64>, tensor<4x6xf64>) -> (tensor<8x3xf64>, tensor<8x3xf64>)
  return %0#0, %0#1 : tensor<8x3xf64>, tensor<8x3xf64>
}
