// RUN: tiduc opt %s --pass-pipeline='tidu-import,tidu-linearize,tidu-linear-transpose' | filecheck %s

// A value used by two ops gets the sum of their cotangents; if it is also an output, its seed is added.

// CHECK:      sym_name = "L0"
// CHECK:      ^bb0(%[[C0:.*]]: tensor<f64>, %[[C1:.*]]: tensor<f64>):
// CHECK-NEXT:   %[[N:.*]] = stablehlo.negate %[[C1]] {tidu.active = array<i1: true>}
// CHECK-NEXT:   %[[S:.*]] = stablehlo.add %[[C0]], %[[N]] {tidu.active = array<i1: true, true>}
// CHECK-NEXT:   %[[T:.*]] = stablehlo.add %[[S]], %[[S]] {tidu.active = array<i1: true, true>}
// CHECK-NEXT:   "tidu.name"(%[[T]]) {sym_name = "x.cotangent"}
// CHECK-NEXT:   stablehlo.return %[[T]]
func.func @main(%x: tensor<f64>) -> (tensor<f64>, tensor<f64>) {
  %0 = stablehlo.add %x, %x : tensor<f64>
  %1 = stablehlo.negate %0 : tensor<f64>
  return %0, %1 : tensor<f64>, tensor<f64>
}
