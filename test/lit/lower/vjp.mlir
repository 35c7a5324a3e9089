// RUN: tiduc opt %s --pass-pipeline='tidu-import,tidu-linearize,tidu-linear-transpose,tidu-materialize-merge,tidu-lower' | filecheck %s

// The five passes with default options compute the VJP.

// CHECK:      func.func @main(%[[X:.*]]: tensor<f64> {{.*}}, %[[CT:.*]]: tensor<f64> {{.*}}) -> (tensor<f64>, tensor<f64>) {
// CHECK-NEXT:   %[[Y:.*]] = stablehlo.exponential %[[X]] : tensor<f64>
// CHECK-NEXT:   %[[C:.*]] = stablehlo.multiply %[[Y]], %[[CT]] : tensor<f64>
// CHECK-NEXT:   return %[[Y]], %[[C]] : tensor<f64>, tensor<f64>
func.func @main(%x: tensor<f64>) -> tensor<f64> {
  %0 = stablehlo.exponential %x : tensor<f64>
  return %0 : tensor<f64>
}
