func.func @double(%x: tensor<f64>) -> tensor<f64> {
  %0 = call @sum(%x, %x) : (tensor<f64>, tensor<f64>) -> tensor<f64>
  return %0 : tensor<f64>
}
func.func private @sum(%x: tensor<f64>, %y: tensor<f64>) -> tensor<f64>
