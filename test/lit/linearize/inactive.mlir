// RUN: tiduc opt %s --pass-pipeline='tidu-import,tidu-linearize{wrt=x}' | filecheck %s

// An output that does not depend on x has a symbolic zero as its tangent: it is flagged inactive, and no op computes it.

// CHECK:      sym_name = "main"
// CHECK:      ^bb0(%[[DX:.*]]: tensor<f64>):
// CHECK-NEXT:   %[[T:.*]] = stablehlo.add %[[DX]], %[[DX]] {tidu.active = array<i1: true, true>}
// CHECK-NEXT:   "tidu.name"(%[[T]]) {sym_name = "v1.tangent"}
// CHECK-NEXT:   stablehlo.return %[[T]] : tensor<f64>
// CHECK-NEXT: tidu.active_outputs = array<i1: false, true>
func.func @main(%x: tensor<f64> {tidu.name = "x"}, %y: tensor<f64>) -> (tensor<f64>, tensor<f64>) {
  %0 = stablehlo.sine %y : tensor<f64>
  %1 = stablehlo.add %x, %x : tensor<f64>
  return %0, %1 : tensor<f64>, tensor<f64>
}
