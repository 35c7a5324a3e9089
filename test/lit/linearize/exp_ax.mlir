// RUN: tiduc opt %s --pass-pipeline='tidu-linearize{wrt=x name=L1}' | filecheck %s
// RUN: tiduc opt %s --pass-pipeline='tidu-linearize{outputs=@F0::@p3 wrt=@x name=L1}' | filecheck %s
// RUN: tiduc opt %s --pass-pipeline='builtin.module(tidu-linearize{graph=F0 wrt="x" name=L1},tidu-resolve)' | filecheck %s

// f(a, x) = exp(a x). The linear graph refers to primal values, and copies nothing.

// CHECK:      sym_name = "F0"
// CHECK:      ^bb0(%[[DX:.*]]: tensor<f64>):
// CHECK-NEXT:   %[[A:.*]] = "tidu.external"() {ref = @F0::@a} : () -> tensor<f64>
// CHECK-NEXT:   %[[T1:.*]] = stablehlo.multiply %[[A]], %[[DX]] {tidu.active = array<i1: false, true>}
// CHECK-NEXT:   %[[P3:.*]] = "tidu.external"() {ref = @F0::@p3} : () -> tensor<f64>
// CHECK-NEXT:   %[[T2:.*]] = stablehlo.multiply %[[P3]], %[[T1]] {tidu.active = array<i1: false, true>}
// CHECK-NEXT:   "tidu.name"(%[[T2]]) {sym_name = "p3.tangent"}
// CHECK-NEXT:   stablehlo.return %[[T2]] : tensor<f64>
// CHECK-NEXT: }) {inputs = [@L1.x], sym_name = "L1", tidu.active_outputs = array<i1: true>
// CHECK-SAME:     tidu.input_of = [@F0::@x], tidu.output_of = [@F0::@p3]}
"tidu.graph"() ({
^bb0(%a: tensor<f64>, %x: tensor<f64>):
  %0 = stablehlo.multiply %a, %x : tensor<f64>
  %1 = stablehlo.exponential %0 : tensor<f64>
  "tidu.name"(%1) {sym_name = "p3"} : (tensor<f64>) -> ()
  stablehlo.return %1 : tensor<f64>
}) {sym_name = "F0", inputs = [@a, @x]} : () -> ()
