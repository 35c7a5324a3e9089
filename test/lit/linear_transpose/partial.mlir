// RUN: tiduc opt %s --pass-pipeline='tidu-linearize{wrt=a,x name=L1},tidu-linear-transpose{wrt=x outputs=@F0::@p3 name=T1}' | filecheck %s
// RUN: tiduc opt %s --pass-pipeline='tidu-linearize{wrt=a,x name=L1},tidu-linear-transpose{wrt=x outputs=@F0::@p3 name=T1},tidu-linear-transpose{graph=T1 name=T2}' | filecheck %s --check-prefix=TWICE
// RUN: not tiduc opt %s --pass-pipeline='tidu-linearize{wrt=x},tidu-linear-transpose{wrt=a}' 2>&1 | filecheck %s --check-prefix=NONE
// RUN: not tiduc opt %s --pass-pipeline='tidu-linearize{wrt=x},tidu-linear-transpose{wrt=x,x}' 2>&1 | filecheck %s --check-prefix=REPEATED

// A block of the transposed map: from the cotangent of the first output to the cotangent of one of two inputs.

// CHECK:      sym_name = "L1"
// CHECK:      "tidu.graph"() ({
// CHECK-NEXT: ^bb0(%[[CT:.*]]: tensor<f64>):
// CHECK-NEXT:   %[[P:.*]] = "tidu.external"() {ref = @F0::@p3}
// CHECK-NEXT:   %[[C1:.*]] = stablehlo.multiply %[[P]], %[[CT]]
// CHECK-NEXT:   %[[A:.*]] = "tidu.external"() {ref = @F0::@a}
// CHECK-NEXT:   %[[C2:.*]] = stablehlo.multiply %[[A]], %[[C1]]
// CHECK-NEXT:   "tidu.name"(%[[C2]]) {sym_name = "x.cotangent"}
// CHECK-NEXT:   stablehlo.return %[[C2]] : tensor<f64>
// CHECK-NEXT: inputs = [@T1.p3], sym_name = "T1", tidu.active_outputs = array<i1: true>, tidu.input_of = [@F0::@p3], tidu.output_of = [@F0::@x]
// CHECK-NOT:  tidu.graph

// TWICE: inputs = [@T2.x], sym_name = "T2"{{.*}} tidu.input_of = [@F0::@x], tidu.output_of = [@F0::@p3]

// NONE: error: @F0::@a is not the primal of an input of graph @L0
// REPEATED: error: @F0::@x is given twice
"tidu.graph"() ({
^bb0(%a: tensor<f64>, %x: tensor<f64>):
  %0 = stablehlo.multiply %a, %x : tensor<f64>
  %1 = stablehlo.exponential %0 : tensor<f64>
  "tidu.name"(%1) {sym_name = "p3"} : (tensor<f64>) -> ()
  %2 = stablehlo.sine %x : tensor<f64>
  stablehlo.return %1, %2 : tensor<f64>, tensor<f64>
}) {sym_name = "F0", inputs = [@a, @x]} : () -> ()
