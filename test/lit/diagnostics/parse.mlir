// RUN: not tiduc jvp %s 2>&1 | filecheck %s
// RUN: cat %s | not tiduc jvp - 2>&1 | filecheck %s --check-prefix=STDIN

// The form of MLIR: the location, the message, the line, and a caret below the column.

// CHECK:      {{.*}}parse.mlir:[[LINE:.*]]:10: error: use of undeclared SSA value name
// CHECK-NEXT: {{^  return %y : tensor<f64>$}}
// CHECK-NEXT: {{^         \^$}}
// STDIN:      <stdin>:{{.*}}:10: error: use of undeclared SSA value name
func.func @main(%x: tensor<f64>) -> tensor<f64> {
  return %y : tensor<f64>
}
