// RUN: tiduc opt %s --pass-pipeline='tidu-import,tidu-batch{size=3}' --split-input-file --verify-diagnostics

func.func @main(%x: tensor<f32>) -> tensor<2xf32> {
  %c = stablehlo.constant dense<2> : tensor<1xi64>
  %l = stablehlo.constant dense<0.0> : tensor<f32>
  // expected-error @+1 {{unsupported batching of stablehlo.rng: it has side effects, so it cannot be repeated for each example}}
  %0 = stablehlo.rng %l, %x, %c, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
