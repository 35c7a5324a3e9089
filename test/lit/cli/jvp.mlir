// RUN: tiduc jvp %s --wrt x | filecheck %s

// f(a, x) = exp(a x)

// CHECK-LABEL: func.func @main
// CHECK-SAME:    %arg2: tensor<f64> {tidu.name = "x.tangent"}
// CHECK-NEXT:    %[[P:.*]] = stablehlo.multiply %arg0, %arg1
// CHECK-NEXT:    %[[E:.*]] = stablehlo.exponential %[[P]]
// CHECK-NEXT:    %[[T:.*]] = stablehlo.multiply %arg0, %arg2
// CHECK-NEXT:    %[[U:.*]] = stablehlo.multiply %[[E]], %[[T]]
// CHECK-NEXT:    return %[[E]], %[[U]]
func.func @main(%a: tensor<f64> {tidu.name = "a"}, %x: tensor<f64> {tidu.name = "x"}) -> tensor<f64> {
  %0 = stablehlo.multiply %a, %x : tensor<f64>
  %1 = stablehlo.exponential %0 : tensor<f64>
  return %1 : tensor<f64>
}
