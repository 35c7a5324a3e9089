// RUN: tiduc opt %s --pass-pipeline='tidu-import,tidu-batch{size=3 inputs=x},tidu-materialize-merge,tidu-lower' | filecheck %s

// The condition is batched: the loop runs while it holds for any example, and finished examples keep their values.

// CHECK:        %[[Y:.*]] = stablehlo.while(%[[Z:.*]] = %arg0) : tensor<3xf32>
// CHECK-NEXT:   cond {
// CHECK:          %[[C:.*]] = stablehlo.compare LT, %[[Z]], %{{.*}} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
// CHECK:          %[[A:.*]] = stablehlo.reduce(%[[C]] init: %{{.*}}) applies stablehlo.or across dimensions = [0]
// CHECK:          stablehlo.return %[[A]] : tensor<i1>
// CHECK:        } do {
// CHECK-DAG:      %[[C:.*]] = stablehlo.compare LT, %[[Z]], %{{.*}} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
// CHECK-DAG:      %[[N:.*]] = stablehlo.add %[[Z]], %[[Z]] : tensor<3xf32>
// CHECK:          %[[S:.*]] = stablehlo.select %[[C]], %[[N]], %[[Z]]
// CHECK:          stablehlo.return %[[S]] : tensor<3xf32>
func.func @main(%x: tensor<f32> {tidu.name = "x"}) -> tensor<f32> {
  %c = stablehlo.constant dense<10.0> : tensor<f32>
  %0 = stablehlo.while(%z = %x) : tensor<f32>
    cond {
      %1 = stablehlo.compare LT, %z, %c : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %1 = stablehlo.add %z, %z : tensor<f32>
      stablehlo.return %1 : tensor<f32>
    }
  return %0 : tensor<f32>
}
