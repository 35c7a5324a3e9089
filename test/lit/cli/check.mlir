// RUN: tiduc check %s --engine reference | filecheck %s
// RUN: tiduc check %s --wrt x --input 2 --input 3 | filecheck %s

// CHECK:      agrees  tangent of result0, against central differences
// CHECK-NEXT: agrees  cotangents, against tangents (adjoint identity)
// CHECK-NEXT: check.mlir: the derivatives agree with finite differences, in 2 comparisons
func.func @main(%a: tensor<f64> {tidu.name = "a"}, %x: tensor<f64> {tidu.name = "x"}) -> tensor<f64> {
  %0 = stablehlo.multiply %a, %x : tensor<f64>
  %1 = stablehlo.exponential %0 : tensor<f64>
  return %1 : tensor<f64>
}
