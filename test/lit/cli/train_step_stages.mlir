// RUN: tiduc train-step %s --train w --timing --verbose --no-cache -o %t.vmfb 2>&1 | filecheck %s

// CHECK:      attempt 1 of {{.*}} compiled
// CHECK:      Execution time report
// CHECK:      import packages
// CHECK-NEXT: import_model
// CHECK:      linearize
// CHECK:      compile{{$}}
// CHECK:      compile: optimize, make dispatches,
// CHECK:      Total
func.func @main(%w: tensor<3xf32>, %x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.multiply %w, %x : tensor<3xf32>
  return %0 : tensor<3xf32>
}
