// RUN: tiduc grad %s --wrt x | filecheck %s
// RUN: tiduc grad %s --wrt x --value | filecheck %s --check-prefix=VALUE

// No product with the seed remains. With --value, the output comes first.

// CHECK:      stablehlo.multiply %arg0, %arg1
// CHECK-NEXT: %[[P3:.*]] = stablehlo.exponential
// CHECK-NEXT: %[[C2:.*]] = stablehlo.multiply %arg0, %[[P3]]
// CHECK-NEXT: return %[[C2]] : tensor<f64>
// VALUE:      %[[P3:.*]] = stablehlo.exponential
// VALUE-NEXT: %[[C2:.*]] = stablehlo.multiply %arg0, %[[P3]]
// VALUE-NEXT: return %[[P3]], %[[C2]] : tensor<f64>, tensor<f64>
func.func @main(%a: tensor<f64> {tidu.name = "a"}, %x: tensor<f64> {tidu.name = "x"}) -> tensor<f64> {
  %0 = stablehlo.multiply %a, %x : tensor<f64>
  %1 = stablehlo.exponential %0 : tensor<f64>
  return %1 : tensor<f64>
}
