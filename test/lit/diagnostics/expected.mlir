// RUN: not tiduc opt %s --split-input-file --verify-diagnostics 2>&1 | filecheck %s

// --verify-diagnostics fails for an unexpected error, and for an expected error that does not occur.

// CHECK: expected.mlir:8:10: error: unexpected error: use of undeclared SSA value name
// CHECK: expected.mlir:12:1: error: expected error "nothing of the kind" was not produced
func.func @main(%x: tensor<f64>) -> tensor<f64> {
  return %y : tensor<f64>
}
// -----
// expected-error @+1 {{nothing of the kind}}
func.func @main(%x: tensor<f64>) -> tensor<f64> {
  return %x : tensor<f64>
}
