// RUN: tiduc opt %s --pass-pipeline='tidu-import,tidu-batch{size=3 inputs=x},tidu-materialize-merge,tidu-lower' | filecheck %s
// RUN: tiduc opt %s --pass-pipeline='tidu-import,tidu-batch{size=3 inputs=x},tidu-batch{size=5 graph=B0 inputs=B0.x,w},tidu-materialize-merge,tidu-lower' | filecheck %s --check-prefix=TWICE
// RUN: tiduc opt %s --pass-pipeline='tidu-import,tidu-linearize,tidu-batch{size=3 inputs=L0.x},tidu-materialize-merge,tidu-lower' | filecheck %s --check-prefix=TANGENTS

// A batched function keeps the order and names of its arguments, including unused ones.

// CHECK:      func.func @main(%arg0: tensor<4xf32> {tidu.name = "w"}, %arg1: tensor<3x4xf32> {tidu.name = "x"}, %arg2: tensor<f32> {tidu.name = "unused"}, %arg3: tensor<4xf32> {tidu.name = "z"}) -> tensor<3x4xf32> {

// TWICE:      func.func @main(%arg0: tensor<5x4xf32> {tidu.name = "w"}, %arg1: tensor<5x3x4xf32> {tidu.name = "x"}, %arg2: tensor<f32> {tidu.name = "unused"}, %arg3: tensor<4xf32> {tidu.name = "z"}) -> tensor<5x3x4xf32> {

// TANGENTS:      %arg3: tensor<4xf32> {tidu.name = "z"},
// TANGENTS-SAME: %arg4: tensor<4xf32> {tidu.name = "L0.w"}, %arg5: tensor<3x4xf32> {tidu.name = "L0.x"}, %arg6: tensor<f32> {tidu.name = "L0.unused"}, %arg7: tensor<4xf32> {tidu.name = "L0.z"})
func.func @main(
    %w: tensor<4xf32> {tidu.name = "w"},
    %x: tensor<4xf32> {tidu.name = "x"},
    %unused: tensor<f32> {tidu.name = "unused"},
    %z: tensor<4xf32> {tidu.name = "z"}) -> tensor<4xf32> {
  %0 = stablehlo.multiply %x, %w : tensor<4xf32>
  %1 = stablehlo.subtract %0, %z : tensor<4xf32>
  return %1 : tensor<4xf32>
}
