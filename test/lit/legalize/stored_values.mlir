// RUN: tiduc opt %s --pass-pipeline='tidu-stored-values' | filecheck %s

// A barrier that only prevents fusions becomes a reshape op of IREE's dialect. A barrier of a constant moves to the start
// of the function. Other barriers do not change.

// CHECK:      func.func @main
// CHECK-NEXT:   %[[C:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<f32>
// CHECK-NEXT:   %[[B:.*]] = stablehlo.optimization_barrier %[[C]] : tensor<f32>
// CHECK-NEXT:   %[[T:.*]] = stablehlo.tanh %arg0
// CHECK-NEXT:   %[[R:.*]] = "flow.tensor.reshape"(%[[T]]) {operandSegmentSizes = array<i32: 1, 0, 0>} : (tensor<4x5xf32>) -> tensor<1x4x5xf32>
// CHECK-NEXT:   %[[S:.*]] = stablehlo.reshape %[[R]] : (tensor<1x4x5xf32>) -> tensor<4x5xf32>
// CHECK-NEXT:   %[[K:.*]] = stablehlo.optimization_barrier %[[T]] : tensor<4x5xf32>
// CHECK-NEXT:   return %[[B]], %[[S]], %[[K]]
func.func @main(%x: tensor<4x5xf32>) -> (tensor<f32>, tensor<4x5xf32>, tensor<4x5xf32>) {
  %t = stablehlo.tanh %x : tensor<4x5xf32>
  %c = stablehlo.constant dense<1.0> : tensor<f32>
  %b = stablehlo.optimization_barrier %c : tensor<f32>
  %s = stablehlo.optimization_barrier {tidu.stored} %t : tensor<4x5xf32>
  %k = stablehlo.optimization_barrier %t : tensor<4x5xf32>
  return %b, %s, %k : tensor<f32>, tensor<4x5xf32>, tensor<4x5xf32>
}
