// RUN: tiduc opt %s --pass-pipeline='tidu-import,tidu-linearize,tidu-linear-transpose,tidu-materialize-merge,tidu-lower' | filecheck %s

// Outputs of several types.

// CHECK:      return %{{.*}}, %{{.*}}, %{{.*}} : tensor<f64>, tensor<4xf64>, tensor<i32>
func.func @main(%x: tensor<f64>, %y: tensor<4xf64>) -> (tensor<f64>, tensor<4xf64>, tensor<i32>) {
  %0 = stablehlo.convert %x : (tensor<f64>) -> tensor<i32>
  return %x, %y, %0 : tensor<f64>, tensor<4xf64>, tensor<i32>
}
