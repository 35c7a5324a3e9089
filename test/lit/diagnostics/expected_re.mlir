// RUN: tiduc opt %s --split-input-file --verify-diagnostics
// RUN: sed s/expected-error-re/expected-error/ %s | not tiduc opt --split-input-file --verify-diagnostics 2>&1 | filecheck %s

// In expected-error-re, parts in {{...}} are regular expressions and the rest is text.

// CHECK: error: unexpected error: use of undeclared SSA value name
// expected-error-re @+2 {{use of undeclared {{S+A}} value}}
func.func @main(%x: tensor<f64>) -> tensor<f64> {
  return %y : tensor<f64>
}
// -----
func.func @main(%x: tensor<f64>) -> tensor<f64> {
  // expected-error-re @below {{expected {{':'|nothing}}}}
  return %x) : tensor<f64>
}
