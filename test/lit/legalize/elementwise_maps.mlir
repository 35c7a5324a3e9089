// RUN: tiduc opt %s --pass-pipeline=tidu-elementwise-maps | filecheck %s

// Two ops are one map of two arrays; the constant becomes a number. The last op has another shape.

// CHECK:      "stablehlo.map"(%arg0, %arg1)
// CHECK-SAME: dimensions = array<i64: 0, 1>
// CHECK-NEXT: ^bb0(%[[A:.*]]: tensor<f32>, %[[B:.*]]: tensor<f32>):
// CHECK-NEXT:   %[[C:.*]] = stablehlo.constant dense<2.000000e+00> : tensor<f32>
// CHECK-NEXT:   %[[P:.*]] = stablehlo.multiply %[[A]], %[[B]] : tensor<f32>
// CHECK-NEXT:   %[[S:.*]] = stablehlo.add %[[P]], %[[C]] : tensor<f32>
// CHECK-NEXT:   stablehlo.return %[[S]] : tensor<f32>
// CHECK:      stablehlo.reshape
// CHECK-NEXT: stablehlo.negate
func.func @main(%x: tensor<4x5xf32>, %y: tensor<4x5xf32>) -> tensor<20xf32> {
  %c = stablehlo.constant dense<2.0> : tensor<4x5xf32>
  %0 = stablehlo.multiply %x, %y : tensor<4x5xf32>
  %1 = stablehlo.add %0, %c : tensor<4x5xf32>
  %2 = stablehlo.reshape %1 : (tensor<4x5xf32>) -> tensor<20xf32>
  %3 = stablehlo.negate %2 : tensor<20xf32>
  return %3 : tensor<20xf32>
}
