// RUN: tiduc check %s --engine reference | filecheck %s
// RUN: tiduc check %s --wrt x --input 2 --input 3 | filecheck %s --check-prefix=X
// RUN: tiduc check %s --wrt x --engine reference --modes rev --order 2 | filecheck %s --check-prefix=TWO

// CHECK:      agrees  tangent of result0, against central differences: relative error {{.*}} (tolerance 1.0e-06)
// CHECK-NEXT: agrees  cotangent of a, against central differences: relative error {{.*}} (tolerance 1.0e-06)
// CHECK-NEXT: agrees  cotangent of a, against tangents (adjoint identity): relative error {{.*}} (tolerance 1.0e-08)
// CHECK-NEXT: agrees  cotangent of x, against central differences
// CHECK-NEXT: agrees  cotangent of x, against tangents (adjoint identity)
// CHECK-NEXT: check.mlir: the derivatives agree with finite differences, in 5 comparisons

// X: check.mlir: the derivatives agree with finite differences, in 3 comparisons

// TWO:      agrees  cotangent of x, against central differences
// TWO-NEXT: agrees  VJP: cotangent of x, against central differences
// TWO-NEXT: agrees  VJP: cotangent of result0.cotangent, against central differences
// TWO-NEXT: check.mlir: the derivatives agree with finite differences, in 3 comparisons
func.func @main(%a: tensor<f64> {tidu.name = "a"}, %x: tensor<f64> {tidu.name = "x"}) -> tensor<f64> {
  %0 = stablehlo.multiply %a, %x : tensor<f64>
  %1 = stablehlo.exponential %0 : tensor<f64>
  return %1 : tensor<f64>
}
