module @jit_mlp_loss attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<64xf32> loc("params['b1']"), %arg1: tensor<64xf32> loc("params['b2']"), %arg2: tensor<4xf32> loc("params['b3']"), %arg3: tensor<16x64xf32> loc("params['w1']"), %arg4: tensor<64x64xf32> loc("params['w2']"), %arg5: tensor<64x4xf32> loc("params['w3']"), %arg6: tensor<32x16xf32> loc("x"), %arg7: tensor<32x4xf32> loc("y")) -> (tensor<f32> {jax.result_info = "result"}) {
    %0 = stablehlo.dot_general %arg6, %arg3, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<32x16xf32>, tensor<16x64xf32>) -> tensor<32x64xf32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [1] : (tensor<64xf32>) -> tensor<1x64xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x64xf32>) -> tensor<32x64xf32>
    %3 = stablehlo.add %0, %2 : tensor<32x64xf32>
    %4 = stablehlo.tanh %3 : tensor<32x64xf32>
    %5 = stablehlo.dot_general %4, %arg4, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<32x64xf32>, tensor<64x64xf32>) -> tensor<32x64xf32>
    %6 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<64xf32>) -> tensor<1x64xf32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [0, 1] : (tensor<1x64xf32>) -> tensor<32x64xf32>
    %8 = stablehlo.add %5, %7 : tensor<32x64xf32>
    %9 = stablehlo.tanh %8 : tensor<32x64xf32>
    %10 = stablehlo.dot_general %9, %arg5, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<32x64xf32>, tensor<64x4xf32>) -> tensor<32x4xf32>
    %11 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<32x4xf32>
    %13 = stablehlo.add %10, %12 : tensor<32x4xf32>
    %14 = stablehlo.subtract %13, %arg7 : tensor<32x4xf32>
    %15 = stablehlo.multiply %14, %14 : tensor<32x4xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %16 = stablehlo.reduce(%15 init: %cst) applies stablehlo.add across dimensions = [0, 1] : (tensor<32x4xf32>, tensor<f32>) -> tensor<f32>
    %cst_0 = stablehlo.constant dense<1.280000e+02> : tensor<f32>
    %17 = stablehlo.divide %16, %cst_0 : tensor<f32>
    return %17 : tensor<f32>
  }
}
