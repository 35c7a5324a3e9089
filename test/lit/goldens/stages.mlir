// RUN: tiduc opt %s --pass-pipeline='tidu-linearize{wrt=x name=L1}' | filecheck %s --check-prefix=LIN
// RUN: tiduc opt %s --pass-pipeline='tidu-linearize{wrt=x name=L1},tidu-linear-transpose{name=T1}' | filecheck %s --check-prefix=TRN
// RUN: tiduc opt %s --pass-pipeline='tidu-linearize{wrt=x name=L1},tidu-linear-transpose{name=T1},tidu-materialize-merge' | filecheck %s --check-prefix=MERGE
// RUN: tiduc opt %s --pass-pipeline='tidu-linearize{wrt=x name=L1},tidu-linear-transpose{name=T1},tidu-materialize-merge,tidu-lower' | filecheck %s --check-prefix=LOWER

// The worked example of the docs, f(a, x) = exp(a x), stage by stage.

"tidu.graph"() ({
^bb0(%a: tensor<f64>, %x: tensor<f64>):
  %p2 = stablehlo.multiply %a, %x : tensor<f64>
  "tidu.name"(%p2) {sym_name = "p2"} : (tensor<f64>) -> ()
  %p3 = stablehlo.exponential %p2 : tensor<f64>
  "tidu.name"(%p3) {sym_name = "p3"} : (tensor<f64>) -> ()
  stablehlo.return %p3 : tensor<f64>
}) {sym_name = "F0", inputs = [@a, @x]} : () -> ()

// The linear graph reads @a and @p3, and copies nothing.
// LIN:       inputs = [@a, @x]{{.*}}sym_name = "F0"
// LIN-NEXT:  "tidu.graph"() ({
// LIN-NEXT:  ^bb0(%[[DX:.*]]: tensor<f64>):
// LIN-NEXT:    %[[A:.*]] = "tidu.external"() {ref = @F0::@a}
// LIN-NEXT:    %[[T1:.*]] = stablehlo.multiply %[[A]], %[[DX]] {tidu.active = array<i1: false, true>}
// LIN-NEXT:    %[[P3:.*]] = "tidu.external"() {ref = @F0::@p3}
// LIN-NEXT:    %[[T2:.*]] = stablehlo.multiply %[[P3]], %[[T1]] {tidu.active = array<i1: false, true>}
// LIN-NEXT:    "tidu.name"(%[[T2]]) {sym_name = "p3.tangent"}
// LIN-NEXT:    stablehlo.return %[[T2]]
// LIN-NEXT:  {inputs = [@L1.x], sym_name = "L1", tidu.active_outputs = array<i1: true>, tidu.input_of = [@F0::@x], tidu.output_of = [@F0::@p3]}

// The transpose, in reverse order, from a cotangent of @p3 to a cotangent of @x.
// TRN:       sym_name = "L1"
// TRN-NEXT:  "tidu.graph"() ({
// TRN-NEXT:  ^bb0(%[[CT:.*]]: tensor<f64>):
// TRN-NEXT:    %[[P3:.*]] = "tidu.external"() {ref = @F0::@p3}
// TRN-NEXT:    %[[C1:.*]] = stablehlo.multiply %[[P3]], %[[CT]] {tidu.active = array<i1: false, true>}
// TRN-NEXT:    %[[A:.*]] = "tidu.external"() {ref = @F0::@a}
// TRN-NEXT:    %[[C2:.*]] = stablehlo.multiply %[[A]], %[[C1]] {tidu.active = array<i1: false, true>}
// TRN-NEXT:    "tidu.name"(%[[C2]]) {sym_name = "x.cotangent"}
// TRN-NEXT:    stablehlo.return %[[C2]]
// TRN-NEXT:  {inputs = [@T1.p3], sym_name = "T1", tidu.active_outputs = array<i1: true>, tidu.input_of = [@F0::@p3], tidu.output_of = [@F0::@x]}

// Merged: multiply, exponential, multiply, multiply and no other op.
// MERGE:      "tidu.graph"() ({
// MERGE-NEXT: ^bb0(%[[A:.*]]: tensor<f64>, %[[X:.*]]: tensor<f64>, %[[CT:.*]]: tensor<f64>):
// MERGE-NEXT:   %[[P2:.*]] = stablehlo.multiply %[[A]], %[[X]]
// MERGE-NEXT:   %[[P3:.*]] = stablehlo.exponential %[[P2]]
// MERGE-NEXT:   %[[C1:.*]] = stablehlo.multiply %[[P3]], %[[CT]]
// MERGE-NEXT:   %[[C2:.*]] = stablehlo.multiply %[[A]], %[[C1]]
// MERGE-NEXT:   stablehlo.return %[[P3]], %[[C2]]

// LOWER-LABEL: func.func @F0
// LOWER-NEXT:  %[[P2:.*]] = stablehlo.multiply %[[A:.*]], %[[X:.*]] : tensor<f64>
// LOWER-NEXT:  %[[P3:.*]] = stablehlo.exponential %[[P2]]
// LOWER-NEXT:  %[[C1:.*]] = stablehlo.multiply %[[P3]], %[[CT:.*]] : tensor<f64>
// LOWER-NEXT:  %[[C2:.*]] = stablehlo.multiply %[[A]], %[[C1]]
// LOWER-NEXT:  return %[[P3]], %[[C2]]
