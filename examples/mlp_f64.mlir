module @jit_mlp_loss attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<64xf64> loc("params['b1']"), %arg1: tensor<64xf64> loc("params['b2']"), %arg2: tensor<4xf64> loc("params['b3']"), %arg3: tensor<16x64xf64> loc("params['w1']"), %arg4: tensor<64x64xf64> loc("params['w2']"), %arg5: tensor<64x4xf64> loc("params['w3']"), %arg6: tensor<32x16xf64> loc("x"), %arg7: tensor<32x4xf64> loc("y")) -> (tensor<f64> {jax.result_info = "result"}) {
    %0 = stablehlo.dot_general %arg6, %arg3, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<32x16xf64>, tensor<16x64xf64>) -> tensor<32x64xf64>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [1] : (tensor<64xf64>) -> tensor<1x64xf64>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x64xf64>) -> tensor<32x64xf64>
    %3 = stablehlo.add %0, %2 : tensor<32x64xf64>
    %4 = stablehlo.tanh %3 : tensor<32x64xf64>
    %5 = stablehlo.dot_general %4, %arg4, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<32x64xf64>, tensor<64x64xf64>) -> tensor<32x64xf64>
    %6 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<64xf64>) -> tensor<1x64xf64>
    %7 = stablehlo.broadcast_in_dim %6, dims = [0, 1] : (tensor<1x64xf64>) -> tensor<32x64xf64>
    %8 = stablehlo.add %5, %7 : tensor<32x64xf64>
    %9 = stablehlo.tanh %8 : tensor<32x64xf64>
    %10 = stablehlo.dot_general %9, %arg5, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<32x64xf64>, tensor<64x4xf64>) -> tensor<32x4xf64>
    %11 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<4xf64>) -> tensor<1x4xf64>
    %12 = stablehlo.broadcast_in_dim %11, dims = [0, 1] : (tensor<1x4xf64>) -> tensor<32x4xf64>
    %13 = stablehlo.add %10, %12 : tensor<32x4xf64>
    %14 = stablehlo.subtract %13, %arg7 : tensor<32x4xf64>
    %15 = stablehlo.multiply %14, %14 : tensor<32x4xf64>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %16 = stablehlo.reduce(%15 init: %cst) applies stablehlo.add across dimensions = [0, 1] : (tensor<32x4xf64>, tensor<f64>) -> tensor<f64>
    %cst_0 = stablehlo.constant dense<1.280000e+02> : tensor<f64>
    %17 = stablehlo.divide %16, %cst_0 : tensor<f64>
    return %17 : tensor<f64>
  }
}
