// RUN: tiduc vjp %s --wrt x | filecheck %s
// RUN: tiduc vjp %s --wrt 1 | filecheck %s
// RUN: tiduc vjp %s --wrt @x | filecheck %s

// mul, exp, mul, mul: the primal is shared.

// CHECK:      func.func @main(%arg0: tensor<f64> {tidu.name = "a"}, %arg1: tensor<f64> {tidu.name = "x"}, %arg2: tensor<f64> {tidu.name = "result0.cotangent"}) -> (tensor<f64>, tensor<f64> {tidu.name = "x.cotangent"}) {
// CHECK-NEXT:   %[[P2:.*]] = stablehlo.multiply %arg0, %arg1
// CHECK-NEXT:   %[[P3:.*]] = stablehlo.exponential %[[P2]]
// CHECK-NEXT:   %[[C1:.*]] = stablehlo.multiply %[[P3]], %arg2
// CHECK-NEXT:   %[[C2:.*]] = stablehlo.multiply %arg0, %[[C1]]
// CHECK-NEXT:   return %[[P3]], %[[C2]]
func.func @main(%a: tensor<f64> {tidu.name = "a"}, %x: tensor<f64> {tidu.name = "x"}) -> tensor<f64> {
  %0 = stablehlo.multiply %a, %x : tensor<f64>
  %1 = stablehlo.exponential %0 : tensor<f64>
  return %1 : tensor<f64>
}
