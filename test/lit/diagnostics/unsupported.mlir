// RUN: tiduc opt %s --split-input-file --verify-diagnostics --pass-pipeline=tidu-import,tidu-linearize,tidu-linear-transpose

// A refusal names the op, the missing rule, the location and the reason.

func.func @main(%x: tensor<f64>) -> tensor<f64> {
  // expected-error @+1 {{unsupported jvp AD rule for stablehlo.custom_call: }}
  %0 = stablehlo.custom_call @foreign(%x) : (tensor<f64>) -> tensor<f64>
  return %0 : tensor<f64>
}
