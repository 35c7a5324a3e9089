// RUN: tiduc opt %s --pass-pipeline='tidu-import,tidu-jet{order=1}' | filecheck %s

// A function that is called twice is propagated once: both calls share one graph of coefficients.

// CHECK:      sym_name = "main"
// CHECK-NOT:  sym_name = "f.jet1"
// CHECK:      sym_name = "f.jet0"
// CHECK-NOT:  sym_name = "f.jet1"
// CHECK:      @tidu.call({{.*}}) {{.*}}[@f.jet0]
// CHECK:      @tidu.call({{.*}}) {{.*}}[@f.jet0]
func.func @main(%x: tensor<f64>) -> tensor<f64> {
  %0 = call @f(%x) : (tensor<f64>) -> tensor<f64>
  %1 = call @f(%0) : (tensor<f64>) -> tensor<f64>
  return %1 : tensor<f64>
}
func.func private @f(%x: tensor<f64>) -> tensor<f64> attributes {no_inline} {
  %0 = stablehlo.sine %x : tensor<f64>
  return %0 : tensor<f64>
}
