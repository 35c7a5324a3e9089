// RUN: tiduc opt %s --pass-pipeline='tidu-import,tidu-batch{size=3 inputs=v},tidu-materialize-merge,tidu-lower' | filecheck %s

// The op has no rule for batched initial values, so a loop over the batch runs it.

// CHECK:      func.func @main(%arg0: tensor<3xf32> {{.*}}, %arg1: tensor<4xf32> {{.*}}) -> tensor<3xf32>
// CHECK:        stablehlo.while
// CHECK:        do {
// CHECK:          %[[V:.*]] = stablehlo.dynamic_slice %arg0, %{{.*}}, sizes = [1]
// CHECK:          %[[S:.*]] = stablehlo.reshape %[[V]] : (tensor<1xf32>) -> tensor<f32>
// CHECK:          stablehlo.reduce(%arg1 init: %[[S]]) applies stablehlo.maximum across dimensions = [0]
// CHECK:          stablehlo.dynamic_update_slice
// CHECK:        }
// CHECK:        stablehlo.sine %{{.*}} : tensor<3xf32>
func.func @main(%v: tensor<f32> {tidu.name = "v"}, %x: tensor<4xf32> {tidu.name = "x"}) -> tensor<f32> {
  %0 = stablehlo.reduce(%x init: %v) applies stablehlo.maximum across dimensions = [0]
    : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
  %1 = stablehlo.sine %0 : tensor<f32>
  return %1 : tensor<f32>
}
