// RUN: tiduc opt %s --pass-pipeline='tidu-linearize{wrt=x name=L1},tidu-linear-transpose{name=T1},tidu-linear-transpose{name=L2}' | filecheck %s

// Transposing twice gives the original map back.

// CHECK:      sym_name = "T1"
// CHECK:      ^bb0(%[[DX:.*]]: tensor<f64>):
// CHECK-NEXT:   %[[A:.*]] = "tidu.external"() {ref = @F0::@a}
// CHECK-NEXT:   %[[T1:.*]] = stablehlo.multiply %[[A]], %[[DX]] {tidu.active = array<i1: false, true>}
// CHECK-NEXT:   %[[P3:.*]] = "tidu.external"() {ref = @F0::@p3}
// CHECK-NEXT:   %[[T2:.*]] = stablehlo.multiply %[[P3]], %[[T1]] {tidu.active = array<i1: false, true>}
// CHECK-NEXT:   "tidu.name"(%[[T2]]) {sym_name = "p3.cotangent"}
// CHECK-NEXT:   stablehlo.return %[[T2]]
// CHECK-NEXT: sym_name = "L2"
// CHECK-SAME:   tidu.input_of = [@F0::@x], tidu.output_of = [@F0::@p3]
"tidu.graph"() ({
^bb0(%a: tensor<f64>, %x: tensor<f64>):
  %0 = stablehlo.multiply %a, %x : tensor<f64>
  %1 = stablehlo.exponential %0 : tensor<f64>
  "tidu.name"(%1) {sym_name = "p3"} : (tensor<f64>) -> ()
  stablehlo.return %1 : tensor<f64>
}) {sym_name = "F0", inputs = [@a, @x]} : () -> ()
