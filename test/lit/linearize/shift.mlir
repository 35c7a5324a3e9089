// RUN: tiduc opt %s --pass-pipeline=tidu-import,tidu-linearize | filecheck %s

// No output of a softmax depends on the maximum that it subtracts, so the maximum has no tangent.

// CHECK:      sym_name = "main"
// CHECK-NEXT: "tidu.graph"
// CHECK-NEXT: ^bb0(%[[DX:.*]]: tensor<3xf64>):
// CHECK-NOT:  stablehlo.compare
// CHECK-NOT:  stablehlo.select
// CHECK:      %[[DE:.*]] = stablehlo.multiply %{{.*}}, %[[DX]]
// CHECK:      stablehlo.reduce(%[[DE]] init
// CHECK:      sym_name = "L0"
func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {
  %low = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>
  %zero = stablehlo.constant dense<0.0> : tensor<f64>
  %0 = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [0]
      : (tensor<3xf64>, tensor<f64>) -> tensor<f64>
  %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f64>) -> tensor<3xf64>
  %2 = stablehlo.subtract %x, %1 : tensor<3xf64>
  %3 = stablehlo.exponential %2 : tensor<3xf64>
  %4 = stablehlo.reduce(%3 init: %zero) applies stablehlo.add across dimensions = [0]
      : (tensor<3xf64>, tensor<f64>) -> tensor<f64>
  %5 = stablehlo.broadcast_in_dim %4, dims = [] : (tensor<f64>) -> tensor<3xf64>
  %6 = stablehlo.divide %3, %5 : tensor<3xf64>
  return %6 : tensor<3xf64>
}
