// The square root of a by Newton's iteration: a loop that ends when its values say so. Written by hand.
func.func @main(%a: tensor<f64>) -> tensor<f64> {
  %one = stablehlo.constant dense<1.0> : tensor<f64>
  %half = stablehlo.constant dense<0.5> : tensor<f64>
  %small = stablehlo.constant dense<1.0e-10> : tensor<f64>
  %root = stablehlo.while(%x = %one) : tensor<f64>
    cond {
      %xx = stablehlo.multiply %x, %x : tensor<f64>
      %off = stablehlo.subtract %xx, %a : tensor<f64>
      %size = stablehlo.abs %off : tensor<f64>
      %more = stablehlo.compare GT, %size, %small : (tensor<f64>, tensor<f64>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %q = stablehlo.divide %a, %x : tensor<f64>
      %sum = stablehlo.add %x, %q : tensor<f64>
      %next = stablehlo.multiply %half, %sum : tensor<f64>
      stablehlo.return %next : tensor<f64>
    }
  return %root : tensor<f64>
}
