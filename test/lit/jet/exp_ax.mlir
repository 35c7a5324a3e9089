// RUN: tiduc opt %s --pass-pipeline='tidu-jet{order=2 wrt=x name=J1}' | filecheck %s
// RUN: tiduc opt %s --pass-pipeline='tidu-jet{order=2 outputs=@F0::@p3 wrt=@x name=J1}' | filecheck %s

// f(a, x) = exp(a x) along x + x_1 t + x_2 t^2. The graph of coefficients refers to primal values, and copies nothing.

// CHECK:      sym_name = "F0"
// CHECK:      ^bb0(%[[X1:.*]]: tensor<f64>, %[[X2:.*]]: tensor<f64>):
// CHECK-NEXT:   %[[A:.*]] = "tidu.external"() {ref = @F0::@a} : () -> tensor<f64>
// CHECK-NEXT:   %[[U1:.*]] = stablehlo.multiply %[[A]], %[[X1]] : tensor<f64>
// CHECK-NEXT:   %[[U2:.*]] = stablehlo.multiply %[[A]], %[[X2]] : tensor<f64>
// CHECK-NEXT:   %[[Y0:.*]] = "tidu.external"() {ref = @F0::@p3} : () -> tensor<f64>
// CHECK-NEXT:   %[[Y1:.*]] = stablehlo.multiply %[[Y0]], %[[U1]] : tensor<f64>
// CHECK-NEXT:   %[[TWO:.*]] = stablehlo.constant dense<2.000000e+00>
// CHECK-NEXT:   %[[D2:.*]] = stablehlo.multiply %[[TWO]], %[[U2]] : tensor<f64>
// CHECK-NEXT:   %[[L:.*]] = stablehlo.multiply %[[Y0]], %[[D2]] : tensor<f64>
// CHECK-NEXT:   %[[R:.*]] = stablehlo.multiply %[[Y1]], %[[U1]] : tensor<f64>
// CHECK-NEXT:   %[[S:.*]] = stablehlo.add %[[L]], %[[R]] : tensor<f64>
// CHECK-NEXT:   %[[HALF:.*]] = stablehlo.constant dense<5.000000e-01>
// CHECK-NEXT:   %[[Y2:.*]] = stablehlo.multiply %[[HALF]], %[[S]] : tensor<f64>
// CHECK-NEXT:   stablehlo.return %[[Y0]], %[[Y1]], %[[Y2]]
// CHECK-NEXT: }) {inputs = [@J1.x.1, @J1.x.2], sym_name = "J1", tidu.jet_of = [@F0]}
"tidu.graph"() ({
^bb0(%a: tensor<f64>, %x: tensor<f64>):
  %0 = stablehlo.multiply %a, %x : tensor<f64>
  %1 = stablehlo.exponential %0 : tensor<f64>
  "tidu.name"(%1) {sym_name = "p3"} : (tensor<f64>) -> ()
  stablehlo.return %1 : tensor<f64>
}) {sym_name = "F0", inputs = [@a, @x]} : () -> ()
