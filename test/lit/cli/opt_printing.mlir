// RUN: tiduc opt %s --tidu-import --cse --tidu-linearize --mlir-print-ir-before-all -o %t 2>&1 | filecheck %s --check-prefix=BEFORE-ALL
// RUN: tiduc opt %s --pass-pipeline='tidu-vjp,func.func(cse,canonicalize)' --mlir-print-ir-after=cse --mlir-print-ir-before=tidu-lower -o %t 2>&1 | filecheck %s --check-prefix=SOME
// RUN: tiduc opt %s --pass-pipeline='func.func(cse)' --mlir-print-ir-after=cse --mlir-print-ir-module-scope -o %t 2>&1 | filecheck %s --check-prefix=SCOPE
// RUN: tiduc opt %s --canonicalize --tidu-import --symbol-dce --mlir-print-ir-after-change -o %t 2>&1 | filecheck %s --check-prefix=CHANGE
// RUN: not tiduc opt %s --tidu-import --tidu-linear-transpose --mlir-print-ir-after-failure -o %t 2>&1 | filecheck %s --check-prefix=FAILURE
// RUN: tiduc opt %s --tidu-import=inline=true --cse --mlir-print-ir-tree-dir=%t.tree -o %t
// RUN: tiduc opt %s --canonicalize --tidu-import --mlir-print-ir-after-change --mlir-print-ir-tree-dir=%t.changed -o %t 2>&1 | not grep .
// RUN: ls %t.changed/builtin_module_no-symbol-name | filecheck %s --check-prefix=CHANGED
// RUN: filecheck %s --check-prefix=TREE < %t.tree/builtin_module_no-symbol-name/0_tidu-import.mlir
// RUN: tiduc opt %s --tidu-vjp --cse --mlir-pass-statistics -o %t 2>&1 | filecheck %s --check-prefix=STATISTICS
// RUN: tiduc opt %s --mlir-print-op-generic --mlir-print-debuginfo | filecheck %s --check-prefix=GENERIC
// RUN: tiduc opt %s --mlir-elide-elementsattrs-if-larger=4 | filecheck %s --check-prefix=ELIDED
// RUN: tiduc opt %s --cse --mlir-elide-elementsattrs-if-larger=4 --mlir-print-ir-after-all -o %t 2>&1 | filecheck %s --check-prefix=ELIDED

// BEFORE-ALL:     IR Dump Before tidu-import
// BEFORE-ALL:     func.func @main
// BEFORE-ALL:     IR Dump Before CSEPass: cse
// BEFORE-ALL:     IR Dump Before tidu-linearize
// BEFORE-ALL-NOT: IR Dump After

// SOME:       IR Dump Before tidu-lower
// SOME-NEXT:  module {
// SOME-NEXT:  "tidu.graph"()
// SOME-NOT:   IR Dump Before
// SOME:       IR Dump After CSEPass: cse
// SOME-NEXT:  func.func @main
// SOME-NOT:   IR Dump

// SCOPE:      IR Dump After CSEPass: cse
// SCOPE-NEXT: module {

// CHANGE-NOT: IR Dump After Canonicalizer
// CHANGE:     IR Dump After tidu-import
// CHANGE-NOT: IR Dump

// FAILURE:    error: the module has no linear graph: run tidu-linearize first
// FAILURE:    IR Dump After tidu-linear-transpose Failed
// FAILURE:    "tidu.graph"

// CHANGED-NOT: canonicalize
// CHANGED:     0_tidu-import.mlir

// TREE:       "tidu.graph"

// STATISTICS:      Pass statistics report
// STATISTICS:      tidu-linearize
// STATISTICS-NEXT: (S)      4 ops before
// STATISTICS-NEXT: (S)     15 ops after
// STATISTICS:      cse
// STATISTICS-NEXT: (S)      7 ops before

// GENERIC:    "stablehlo.multiply"(%arg0, %arg1) : {{.*}} loc(#loc
// ELIDED:     dense_resource<__elided__>
func.func @main(%a: tensor<f64>, %x: tensor<f64>) -> tensor<f64> {
  %0 = stablehlo.multiply %a, %x : tensor<f64>
  %1 = stablehlo.exponential %0 : tensor<f64>
  return %1 : tensor<f64>
}
func.func private @other() -> tensor<5xi32> {
  %0 = stablehlo.constant dense<[1, 2, 3, 4, 5]> : tensor<5xi32>
  return %0 : tensor<5xi32>
}
