// RUN: tiduc opt %s --pass-pipeline='tidu-import,tidu-batch{size=3}' --split-input-file --verify-diagnostics

func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %t = stablehlo.create_token : !stablehlo.token
  // expected-error @+1 {{unsupported batching of stablehlo.outfeed: it has side effects, so it cannot be repeated for each example}}
  %o = "stablehlo.outfeed"(%x, %t) {outfeed_config = ""} : (tensor<f32>, !stablehlo.token) -> !stablehlo.token
  %y:2 = "stablehlo.infeed"(%o) {infeed_config = "", layout = [[]]} : (!stablehlo.token) -> (tensor<f32>, !stablehlo.token)
  return %y#0 : tensor<f32>
}
