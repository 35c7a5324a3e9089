// RUN: not tiduc opt %s --pass-pipeline='tidu-import,cse,tidu-linear-transpose' --mlir-pass-pipeline-crash-reproducer=%t.mlir 2>&1 | filecheck %s --check-prefix=FAILED
// RUN: filecheck %s --check-prefix=FILE < %t.mlir
// RUN: not tiduc opt --run-reproducer %t.mlir 2>&1 | filecheck %s --check-prefix=AGAIN
// RUN: tiduc opt %s --cse --mlir-pass-pipeline-crash-reproducer=%t.none | filecheck %s --check-prefix=RIGHT
// RUN: not ls %t.none
// RUN: not tiduc opt --run-reproducer %s 2>&1 | filecheck %s --check-prefix=NONE
// RUN: torch-mlir-opt %s --cse --mlir-generate-reproducer=%t.theirs -o %t.out
// RUN: tiduc opt --run-reproducer %t.theirs --dump-pass-pipeline 2>&1 | filecheck %s --check-prefix=THEIRS

// FAILED: error: the module has no linear graph: run tidu-linearize first
// FAILED: note: reproducer generated at {{.*}}.mlir
// FILE:   func.func @main
// FILE:   pipeline: "builtin.module(tidu-import,cse,tidu-linear-transpose)"
// AGAIN:  error: the module has no linear graph
// RIGHT:  func.func @main
// NONE:   error: the file has no mlir_reproducer with a pipeline, which --run-reproducer runs
// THEIRS: builtin.module(cse)
func.func @main(%x: tensor<f64>) -> tensor<f64> {
  return %x : tensor<f64>
}
