// RUN: tiduc grad %s --wrt x --mlir-print-ir-after-all --mlir-timing -o %t 2>&1 | filecheck %s
// RUN: tiduc jvp %s --mlir-print-ir-after=linearize -o %t 2>&1 | filecheck %s --check-prefix=ONE
// RUN: not tiduc grad %s --mlir-print-ir-after=linearise 2>&1 | filecheck %s --check-prefix=UNKNOWN

// The derivatives print IR and times, as 'tiduc opt' does; the body of a loop is not a stage of its own.

// CHECK:      IR Dump After import
// CHECK:      IR Dump After linearize
// CHECK:      sym_name = "L
// CHECK-NOT:  IR Dump After linearize
// CHECK:      IR Dump After linear_transpose
// CHECK:      IR Dump After materialize_merge
// CHECK-NOT:  IR Dump After import
// CHECK:      IR Dump After structure
// CHECK:      IR Dump After lower
// CHECK:      func.func @main
// CHECK:      Execution time report
// CHECK:      Wall Time
// CHECK:      linearize
// CHECK:      Total
// ONE:        IR Dump After linearize
// ONE-NOT:    IR Dump
// UNKNOWN:    'linearise' is not one of
func.func @main(%x: tensor<f64>) -> tensor<f64> {
  %n = stablehlo.constant dense<0> : tensor<i64>
  %0:2 = stablehlo.while(%i = %n, %y = %x) : tensor<i64>, tensor<f64>
    cond {
      %c = stablehlo.constant dense<3> : tensor<i64>
      %p = stablehlo.compare LT, %i, %c : (tensor<i64>, tensor<i64>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i64>
      %j = stablehlo.add %i, %one : tensor<i64>
      %z = stablehlo.sine %y : tensor<f64>
      stablehlo.return %j, %z : tensor<i64>, tensor<f64>
    }
  return %0#1 : tensor<f64>
}
