// RUN: tiduc opt %s --pass-pipeline='tidu-import,tidu-batch{size=8 inputs=x},tidu-materialize-merge,tidu-lower' | filecheck %s

// A function batched in x, with w shared; values that do not depend on x are not batched.

// CHECK:      func.func @main(%arg0: tensor<8x4xf32> {{.*}}, %arg1: tensor<4xf32> {tidu.name = "w"}) -> (tensor<8xf32>, tensor<4xf32>)
// CHECK-DAG:    %[[N:.*]] = stablehlo.negate %arg1 : tensor<4xf32>
// CHECK-DAG:    %[[D:.*]] = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8xf32>
// CHECK:        return %[[D]], %[[N]]
func.func @main(%x: tensor<4xf32> {tidu.name = "x"}, %w: tensor<4xf32> {tidu.name = "w"}) -> (tensor<f32>, tensor<4xf32>) {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [0] x [0] : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
  %1 = stablehlo.negate %w : tensor<4xf32>
  return %0, %1 : tensor<f32>, tensor<4xf32>
}
