// RUN: tiduc opt %s --pass-pipeline=tidu-elementwise-maps | filecheck %s

// Two ops become one map of two arrays. The converted and broadcast constant becomes a number. The last op is not in the
// map, because it has another shape.

// CHECK-NOT:  stablehlo.constant
// CHECK:      "stablehlo.map"(%arg0, %arg1)
// CHECK-SAME: dimensions = array<i64: 0, 1>
// CHECK-NEXT: ^bb0(%[[A:.*]]: tensor<f32>, %[[B:.*]]: tensor<f32>):
// CHECK-NEXT:   %[[C:.*]] = stablehlo.constant dense<1.000000e-01> : tensor<f32>
// CHECK-NEXT:   %[[P:.*]] = stablehlo.multiply %[[A]], %[[B]] : tensor<f32>
// CHECK-NEXT:   %[[S:.*]] = stablehlo.add %[[P]], %[[C]] : tensor<f32>
// CHECK-NEXT:   stablehlo.return %[[S]] : tensor<f32>
// CHECK:      stablehlo.reshape
// CHECK-NEXT: stablehlo.negate
func.func @main(%x: tensor<4x5xf32>, %y: tensor<4x5xf32>) -> tensor<20xf32> {
  %d = stablehlo.constant dense<0.1> : tensor<1xf64>
  %e = stablehlo.convert %d : (tensor<1xf64>) -> tensor<1xf32>
  %f = stablehlo.reshape %e : (tensor<1xf32>) -> tensor<f32>
  %c = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<4x5xf32>
  %0 = stablehlo.multiply %x, %y : tensor<4x5xf32>
  %1 = stablehlo.add %0, %c : tensor<4x5xf32>
  %2 = stablehlo.reshape %1 : (tensor<4x5xf32>) -> tensor<20xf32>
  %3 = stablehlo.negate %2 : tensor<20xf32>
  return %3 : tensor<20xf32>
}
