// RUN: tiduc opt %s --pass-pipeline=tidu-import | filecheck %s

// No result of a softmax depends on the maximum that it subtracts. Another result of @exponentials does.

// CHECK:      applies stablehlo.maximum
// CHECK-NOT:  tidu.shift
// CHECK:      sym_name = "exponentials"
// CHECK:      applies stablehlo.maximum
// CHECK-SAME: tidu.shift = true
// CHECK:      sym_name = "softmax"
func.func @exponentials(%x: tensor<3xf64>) -> tensor<3xf64> {
  %low = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>
  %0 = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [0]
      : (tensor<3xf64>, tensor<f64>) -> tensor<f64>
  %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f64>) -> tensor<3xf64>
  %2 = stablehlo.subtract %x, %1 : tensor<3xf64>
  %3 = stablehlo.exponential %2 : tensor<3xf64>
  return %3 : tensor<3xf64>
}

func.func @softmax(%x: tensor<3xf64>) -> tensor<3xf64> {
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
