// RUN: tiduc opt %s --pass-pipeline='tidu-linearize{wrt=x name=L1},tidu-linear-transpose{name=T1},tidu-materialize-merge{inputs=a,x,T1.p3}' | filecheck %s

// mul, exp, mul, mul and no other op: a x and its exponential are shared, and the JVP's ops are dropped.

// CHECK:      ^bb0(%[[A:.*]]: tensor<f64>, %[[X:.*]]: tensor<f64>, %[[CT:.*]]: tensor<f64>):
// CHECK-NEXT:   %[[P2:.*]] = stablehlo.multiply %[[A]], %[[X]] : tensor<f64>
// CHECK-NEXT:   %[[P3:.*]] = stablehlo.exponential %[[P2]] : tensor<f64>
// CHECK-NEXT:   %[[C1:.*]] = stablehlo.multiply %[[P3]], %[[CT]] {tidu.active = array<i1: false, true>}
// CHECK-NEXT:   %[[C2:.*]] = stablehlo.multiply %[[A]], %[[C1]] {tidu.active = array<i1: false, true>}
// CHECK-NEXT:   stablehlo.return %[[P3]], %[[C2]]
// CHECK-NEXT: inputs = [@a, @x, @T1.p3], sym_name = "F0"
// CHECK-NOT:  tidu.graph
"tidu.graph"() ({
^bb0(%a: tensor<f64>, %x: tensor<f64>):
  %0 = stablehlo.multiply %a, %x : tensor<f64>
  %1 = stablehlo.exponential %0 : tensor<f64>
  "tidu.name"(%1) {sym_name = "p3"} : (tensor<f64>) -> ()
  stablehlo.return %1 : tensor<f64>
}) {sym_name = "F0", inputs = [@a, @x]} : () -> ()
