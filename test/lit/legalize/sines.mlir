// RUN: tiduc opt %s --pass-pipeline=tidu-sines-to-kernels | filecheck %s

// Each sine or cosine of a large array is computed in a dispatch of its own; small arrays are not rewritten.

// CHECK-LABEL: @main
// CHECK: stablehlo.maximum across dimensions = [0]
// CHECK: flow.dispatch.region
// CHECK: scf.if
// CHECK: stablehlo.compare GE
// CHECK: } else {
// CHECK-NOT: stablehlo.compare
// CHECK: scf.yield
// CHECK: flow.dispatch.region
// CHECK-NOT: flow.dispatch.region
// CHECK: stablehlo.multiply
// CHECK: stablehlo.sine
func.func @main(%x: tensor<200x100xf32>, %y: tensor<9xf32>) -> (tensor<200x100xf32>, tensor<9xf32>) {
  %0 = stablehlo.sine %x : tensor<200x100xf32>
  %1 = stablehlo.cosine %x : tensor<200x100xf32>
  %2 = stablehlo.multiply %0, %1 : tensor<200x100xf32>
  %3 = stablehlo.sine %y : tensor<9xf32>
  return %2, %3 : tensor<200x100xf32>, tensor<9xf32>
}
