func.func @g(%x: tensor<f64>) -> tensor<f64> {
  %0 = call @f(%x) : (tensor<f64>) -> tensor<f64>
  %1 = call @f_0(%0) : (tensor<f64>) -> tensor<f64>
  return %1 : tensor<f64>
}
func.func private @f(%x: tensor<f64>) -> tensor<f64> {
  %0 = stablehlo.sine %x : tensor<f64>
  return %0 : tensor<f64>
}
func.func private @f_0(%x: tensor<f64>) -> tensor<f64> {
  %0 = stablehlo.cosine %x : tensor<f64>
  return %0 : tensor<f64>
}
