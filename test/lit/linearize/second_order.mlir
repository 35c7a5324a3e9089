// RUN: tiduc opt %s --pass-pipeline='tidu-linearize{wrt=x name=L1},tidu-linearize{graph=L1 wrt=x name=L2}' | filecheck %s

// A view with a linear graph is linearized again, without a merge in between. The tangent of @F0::@p3 with
// respect to x, which the second derivative needs, is the linear part of L2 itself.

// CHECK:      sym_name = "L1"
// CHECK:      ^bb0(%[[DX:.*]]: tensor<f64>):
// CHECK-NEXT:   %[[A:.*]] = "tidu.external"() {ref = @F0::@a}
// CHECK-NEXT:   %[[D2:.*]] = stablehlo.multiply %[[A]], %[[DX]] {tidu.active = array<i1: false, true>}
// CHECK-NEXT:   %[[P3:.*]] = "tidu.external"() {ref = @F0::@p3}
// CHECK-NEXT:   %[[D3:.*]] = stablehlo.multiply %[[P3]], %[[D2]] {tidu.active = array<i1: false, true>}
// CHECK-NEXT:   %[[T1:.*]] = "tidu.external"() {ref = @L1::@{{.*}}}
// CHECK-NEXT:   %[[TT:.*]] = stablehlo.multiply %[[D3]], %[[T1]] {tidu.active = array<i1: true, false>}
// CHECK-NEXT:   "tidu.name"(%[[TT]]) {sym_name = "p3.tangent.tangent"}
// CHECK-NEXT:   stablehlo.return %[[TT]]
// CHECK:      sym_name = "L2"
"tidu.graph"() ({
^bb0(%a: tensor<f64>, %x: tensor<f64>):
  %0 = stablehlo.multiply %a, %x : tensor<f64>
  %1 = stablehlo.exponential %0 : tensor<f64>
  "tidu.name"(%1) {sym_name = "p3"} : (tensor<f64>) -> ()
  stablehlo.return %1 : tensor<f64>
}) {sym_name = "F0", inputs = [@a, @x]} : () -> ()
