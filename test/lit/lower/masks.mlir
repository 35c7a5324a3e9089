// RUN: tiduc opt %s --pass-pipeline='tidu-lower' | filecheck %s

// Active masks are dropped, and ops that differed only in masks are merged.

// CHECK:      func.func @main(%[[X:.*]]: tensor<f64>) -> (tensor<f64>, tensor<f64>) {
// CHECK-NEXT:   %[[Y:.*]] = stablehlo.sine %[[X]] : tensor<f64>
// CHECK-NEXT:   return %[[Y]], %[[Y]] : tensor<f64>, tensor<f64>
"tidu.graph"() ({
^bb0(%x: tensor<f64>):
  %0 = stablehlo.sine %x : tensor<f64>
  %1 = stablehlo.sine %x {tidu.active = array<i1: true>} : tensor<f64>
  "tidu.name"(%0) {sym_name = "p"} : (tensor<f64>) -> ()
  stablehlo.return %0, %1 : tensor<f64>, tensor<f64>
}) {sym_name = "main", inputs = [@x], tidu.merged} : () -> ()
