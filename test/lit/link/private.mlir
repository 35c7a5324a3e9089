// RUN: tiduc link %s %S/Inputs/private.mlir | filecheck %s

// A private function gets a new name, which no function of either file has.

// CHECK:      func.func private @f(
// CHECK-NEXT:   stablehlo.negate
// CHECK:      func.func @g
// CHECK-NEXT:   call @f_1(
// CHECK-NEXT:   call @f_0(
// CHECK:      func.func private @f_1(
// CHECK-NEXT:   stablehlo.sine
// CHECK:      func.func private @f_0(
// CHECK-NEXT:   stablehlo.cosine
func.func @main(%x: tensor<f64>) -> tensor<f64> {
  %0 = call @f(%x) : (tensor<f64>) -> tensor<f64>
  %1 = call @g(%0) : (tensor<f64>) -> tensor<f64>
  return %1 : tensor<f64>
}
func.func private @f(%x: tensor<f64>) -> tensor<f64> {
  %0 = stablehlo.negate %x : tensor<f64>
  return %0 : tensor<f64>
}
func.func private @g(%x: tensor<f64>) -> tensor<f64>
