// RUN: tiduc compile %s --dump-intermediates %t.dump --mlir-timing -o %t.vmfb 2>&1 | filecheck %s --check-prefix=TIMING
// RUN: filecheck %s --check-prefix=LOWERED < %t.dump/03-lower.mlir
// RUN: filecheck %s --check-prefix=INPUT < %t.dump/iree-input.mlir
// RUN: filecheck %s --check-prefix=FLOW < %t.dump/phases/module.6.flow.mlir
// RUN: ls %t.dump/executables | filecheck %s --check-prefix=OBJECTS
// RUN: tiduc compile %s --stop-after structure | filecheck %s --check-prefix=STRUCTURE
// RUN: tiduc compile %s --stop-after legalize | filecheck %s --check-prefix=INPUT
// RUN: tiduc compile %s --stop-after flow | filecheck %s --check-prefix=FLOW
// RUN: not tiduc compile %s --iree-flag=--no-such-flag -o %t.vmfb 2>&1 | filecheck %s --check-prefix=FLAG
// RUN: tiduc compile %s --mlir-print-ir-after=iree-apply-patterns -o %t.vmfb 2>&1 | filecheck %s --check-prefix=PATTERNS
// RUN: not tiduc compile %s %s --stop-after flow -o %t 2>&1 | filecheck %s --check-prefix=SINGLE

// TIMING:    Execution time report
// TIMING:    iree-apply-patterns
// TIMING:    compile
// LOWERED:   stablehlo.exponential
// INPUT:     iree.reflection
// FLOW:      flow.executable
// OBJECTS:   main_dispatch_0{{.*}}.o
// STRUCTURE: "tidu.graph"
// FLAG:      error: {{.*}}Unknown command line argument '--no-such-flag'
// PATTERNS:  IR Dump After iree-apply-patterns
// SINGLE:    error: --stop-after needs a single FILE
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.exponential %x : tensor<3xf32>
  return %0 : tensor<3xf32>
}
