// RUN: tiduc opt %s --pass-pipeline='tidu-linearize{wrt=x name=L1},tidu-linear-transpose{name=T1}' | filecheck %s

// CHECK:      sym_name = "L1"
// CHECK:      ^bb0(%[[CT:.*]]: tensor<f64>):
// CHECK-NEXT:   %[[P3:.*]] = "tidu.external"() {ref = @F0::@p3} : () -> tensor<f64>
// CHECK-NEXT:   %[[C1:.*]] = stablehlo.multiply %[[P3]], %[[CT]] {tidu.active = array<i1: false, true>}
// CHECK-NEXT:   %[[A:.*]] = "tidu.external"() {ref = @F0::@a} : () -> tensor<f64>
// CHECK-NEXT:   %[[C2:.*]] = stablehlo.multiply %[[A]], %[[C1]] {tidu.active = array<i1: false, true>}
// CHECK-NEXT:   "tidu.name"(%[[C2]]) {sym_name = "x.cotangent"}
// CHECK-NEXT:   stablehlo.return %[[C2]] : tensor<f64>
// CHECK-NEXT: }) {inputs = [@T1.p3], sym_name = "T1", tidu.active_outputs = array<i1: true>
// CHECK-SAME:     tidu.input_of = [@F0::@p3], tidu.output_of = [@F0::@x]}
"tidu.graph"() ({
^bb0(%a: tensor<f64>, %x: tensor<f64>):
  %0 = stablehlo.multiply %a, %x : tensor<f64>
  %1 = stablehlo.exponential %0 : tensor<f64>
  "tidu.name"(%1) {sym_name = "p3"} : (tensor<f64>) -> ()
  stablehlo.return %1 : tensor<f64>
}) {sym_name = "F0", inputs = [@a, @x]} : () -> ()
