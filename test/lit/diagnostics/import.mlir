// RUN: tiduc opt %s --split-input-file --verify-diagnostics --pass-pipeline=tidu-import

func.func @main(%x: tensor<f64>) -> tensor<f64> {
  // expected-error @+1 {{the call of @main is recursive}}
  %0 = call @main(%x) : (tensor<f64>) -> tensor<f64>
  return %0 : tensor<f64>
}
// -----
// expected-error @+1 {{a function of several blocks cannot be differentiated}}
func.func @main(%x: tensor<f64>) -> tensor<f64> {
  cf.br ^bb1
^bb1:
  return %x : tensor<f64>
}
// -----
// expected-error @+1 {{argument 0 has an empty name}}
func.func @main(%x: tensor<f64> {tidu.name = ""}) -> tensor<f64> {
  return %x : tensor<f64>
}
