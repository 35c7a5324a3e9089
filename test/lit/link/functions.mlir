// RUN: tiduc link %s %S/Inputs/functions.mlir | filecheck %s
// RUN: not tiduc link %s 2>&1 | filecheck %s --check-prefix=UNKNOWN
// RUN: cat %S/Inputs/functions.mlir | sed 's/f64/f32/g' > %t.mlir
// RUN: not tiduc link %s %t.mlir 2>&1 | filecheck %s --check-prefix=TYPE
// RUN: tiduc link %s --search-path=%S/Inputs | filecheck %s --check-prefix=FOUND
// RUN: rm -rf %t.dir && mkdir %t.dir && cp %S/Inputs/double.mlir %t.dir
// RUN: not tiduc link %s --search-path=%S/Inputs --search-path=%t.dir 2>&1 | filecheck %s --check-prefix=TWICE

// A definition replaces a declaration; private functions with equal names are kept separate.

// CHECK:      func.func @main
// CHECK:        call @step(
// CHECK:        call @double(
// CHECK:      func.func private @step(
// CHECK-NEXT:   stablehlo.negate
// CHECK-NOT:  func.func private @double
// CHECK:      func.func @double
// CHECK:        call @step_0(
// CHECK:      func.func private @step_0(
// FOUND:      func.func @main
// FOUND:      func.func @double
// FOUND-NEXT:   call @sum
// FOUND:      func.func @sum
// FOUND-NEXT:   stablehlo.add
// TWICE:      error: symbol @double is ambiguous: in {{.*}}double.mlir and in {{.*}}double.mlir
// UNKNOWN:    error: unknown function @double: it is declared here, but no file defines it
// TYPE:       error: function @double is declared with type (tensor<f64>) -> tensor<f64>, but defined with type (tensor<f32>) -> tensor<f32>
func.func @main(%x: tensor<f64>) -> tensor<f64> {
  %0 = call @step(%x) : (tensor<f64>) -> tensor<f64>
  %1 = call @double(%0) : (tensor<f64>) -> tensor<f64>
  return %1 : tensor<f64>
}
func.func private @step(%x: tensor<f64>) -> tensor<f64> {
  %0 = stablehlo.negate %x : tensor<f64>
  return %0 : tensor<f64>
}
func.func private @double(%x: tensor<f64>) -> tensor<f64>
