// One step of gradient descent on the parameters of mlp_f32: each minus the rate times its gradient.
// The results take the parameters' place in memory (`iree.abi.output`), so that a loop allocates nothing.
func.func @main(
    %p0: tensor<64xf32> {iree.abi.output = 0 : index, tidu.name = "params['b1']"},
    %p1: tensor<64xf32> {iree.abi.output = 1 : index, tidu.name = "params['b2']"},
    %p2: tensor<4xf32> {iree.abi.output = 2 : index, tidu.name = "params['b3']"},
    %p3: tensor<16x64xf32> {iree.abi.output = 3 : index, tidu.name = "params['w1']"},
    %p4: tensor<64x64xf32> {iree.abi.output = 4 : index, tidu.name = "params['w2']"},
    %p5: tensor<64x4xf32> {iree.abi.output = 5 : index, tidu.name = "params['w3']"},
    %g0: tensor<64xf32> {tidu.name = "params['b1'].gradient"},
    %g1: tensor<64xf32> {tidu.name = "params['b2'].gradient"},
    %g2: tensor<4xf32> {tidu.name = "params['b3'].gradient"},
    %g3: tensor<16x64xf32> {tidu.name = "params['w1'].gradient"},
    %g4: tensor<64x64xf32> {tidu.name = "params['w2'].gradient"},
    %g5: tensor<64x4xf32> {tidu.name = "params['w3'].gradient"},
    %rate: tensor<f32> {tidu.name = "rate"}
) -> (tensor<64xf32>, tensor<64xf32>, tensor<4xf32>, tensor<16x64xf32>, tensor<64x64xf32>, tensor<64x4xf32>) {
  %r0 = stablehlo.broadcast_in_dim %rate, dims = [] : (tensor<f32>) -> tensor<64xf32>
  %s0 = stablehlo.multiply %r0, %g0 : tensor<64xf32>
  %n0 = stablehlo.subtract %p0, %s0 : tensor<64xf32>
  %r1 = stablehlo.broadcast_in_dim %rate, dims = [] : (tensor<f32>) -> tensor<64xf32>
  %s1 = stablehlo.multiply %r1, %g1 : tensor<64xf32>
  %n1 = stablehlo.subtract %p1, %s1 : tensor<64xf32>
  %r2 = stablehlo.broadcast_in_dim %rate, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %s2 = stablehlo.multiply %r2, %g2 : tensor<4xf32>
  %n2 = stablehlo.subtract %p2, %s2 : tensor<4xf32>
  %r3 = stablehlo.broadcast_in_dim %rate, dims = [] : (tensor<f32>) -> tensor<16x64xf32>
  %s3 = stablehlo.multiply %r3, %g3 : tensor<16x64xf32>
  %n3 = stablehlo.subtract %p3, %s3 : tensor<16x64xf32>
  %r4 = stablehlo.broadcast_in_dim %rate, dims = [] : (tensor<f32>) -> tensor<64x64xf32>
  %s4 = stablehlo.multiply %r4, %g4 : tensor<64x64xf32>
  %n4 = stablehlo.subtract %p4, %s4 : tensor<64x64xf32>
  %r5 = stablehlo.broadcast_in_dim %rate, dims = [] : (tensor<f32>) -> tensor<64x4xf32>
  %s5 = stablehlo.multiply %r5, %g5 : tensor<64x4xf32>
  %n5 = stablehlo.subtract %p5, %s5 : tensor<64x4xf32>
  return %n0, %n1, %n2, %n3, %n4, %n5 : tensor<64xf32>, tensor<64xf32>, tensor<4xf32>, tensor<16x64xf32>, tensor<64x64xf32>, tensor<64x4xf32>
}
