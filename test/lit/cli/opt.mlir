// RUN: tiduc opt %s --pass-pipeline='builtin.module(tidu-import,cse)' --mlir-print-ir-after-all -o %t 2>&1 | filecheck %s --check-prefix=PRINT
// RUN: tiduc opt %s --pass-pipeline='tidu-import,func.func(cse)' --timing -o %t 2>&1 | filecheck %s --check-prefix=TIMING
// RUN: tiduc opt %s | filecheck %s --check-prefix=NONE

// PRINT:  IR Dump After tidu-import
// PRINT:  sym_name = "main"
// PRINT:  IR Dump After CSE
// TIMING: Execution time report
// TIMING: tidu-import
// NONE:   func.func @main
func.func @main(%a: tensor<f64> {tidu.name = "a"}, %x: tensor<f64> {tidu.name = "x"}) -> tensor<f64> {
  %0 = stablehlo.multiply %a, %x : tensor<f64>
  %1 = stablehlo.exponential %0 : tensor<f64>
  return %1 : tensor<f64>
}
