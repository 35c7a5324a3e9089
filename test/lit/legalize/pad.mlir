// RUN: tiduc opt %s --pass-pipeline='tidu-legalize-for-iree' | filecheck %s

// Each padding by a 64-bit number other than 0 has a select before that number.

// CHECK:      %[[P:.*]] = stablehlo.select %{{.*}}, %arg1, %{{.*}} : tensor<i1>, tensor<f64>
// CHECK-NEXT: stablehlo.pad %arg0, %[[P]],
// CHECK:      %[[Q:.*]] = stablehlo.select %{{.*}}, %arg1, %{{.*}} : tensor<i1>, tensor<f64>
// CHECK-NEXT: stablehlo.pad %arg0, %[[Q]],
// CHECK-NOT:  stablehlo.select
func.func @main(%x: tensor<3xf64>, %v: tensor<f64>, %y: tensor<3xf32>, %w: tensor<f32>)
    -> (tensor<4xf64>, tensor<4xf64>, tensor<4xf64>, tensor<4xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f64>
  %0 = stablehlo.pad %x, %v, low = [0], high = [1], interior = [0] : (tensor<3xf64>, tensor<f64>) -> tensor<4xf64>
  %1 = stablehlo.pad %x, %v, low = [1], high = [0], interior = [0] : (tensor<3xf64>, tensor<f64>) -> tensor<4xf64>
  %2 = stablehlo.pad %x, %zero, low = [1], high = [0], interior = [0] : (tensor<3xf64>, tensor<f64>) -> tensor<4xf64>
  %3 = stablehlo.pad %y, %w, low = [1], high = [0], interior = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<4xf32>
  return %0, %1, %2, %3 : tensor<4xf64>, tensor<4xf64>, tensor<4xf64>, tensor<4xf32>
}
