// RUN: tiduc hvp %s --wrt x | filecheck %s

// CHECK:      func.func @main(%arg0: tensor<f64> {tidu.name = "a"}, %arg1: tensor<f64> {tidu.name = "x"}, %arg2: tensor<f64> {tidu.name = "x.tangent"}) -> (tensor<f64> {tidu.name = "x.cotangent.tangent"})
// CHECK-DAG:    stablehlo.multiply %arg0, %arg1
// CHECK-DAG:    stablehlo.multiply %arg0, %arg2
// CHECK:        stablehlo.exponential
// CHECK-NOT:    stablehlo.exponential
func.func @main(%a: tensor<f64> {tidu.name = "a"}, %x: tensor<f64> {tidu.name = "x"}) -> tensor<f64> {
  %0 = stablehlo.multiply %a, %x : tensor<f64>
  %1 = stablehlo.exponential %0 : tensor<f64>
  return %1 : tensor<f64>
}
