func.func @sum(%x: tensor<f64>, %y: tensor<f64>) -> tensor<f64> {
  %0 = stablehlo.add %x, %y : tensor<f64>
  return %0 : tensor<f64>
}
