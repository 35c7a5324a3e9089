// RUN: tiduc opt %s --pass-pipeline='tidu-legalize-for-iree' --split-input-file --verify-diagnostics

func.func @main(%x: tensor<f32>) -> tensor<f32> {
  // expected-error @+1 {{IREE cannot compile stablehlo.custom_call: IREE has no @f; }}
  %0 = stablehlo.custom_call @f(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

func.func @main(%x: tensor<f32>) -> tensor<f32> {
  // expected-error @+1 {{IREE cannot compile func.call: @main calls itself}}
  %0 = func.call @main(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
