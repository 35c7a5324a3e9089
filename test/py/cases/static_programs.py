"""Two programs for tests of static libraries: a layer of a network, and a loop with a dynamic trip count."""

LAYER = """func.func @main(%w: tensor<16x3xf32>, %x: tensor<8x3xf32>) -> tensor<f32> {
  %b = stablehlo.constant dense<[1.0, 2.0, -3.0, 4.0, 5.0, 6.0, 7.0, 8.0]> : tensor<8xf32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [1]
    : (tensor<8x3xf32>, tensor<16x3xf32>) -> tensor<8x16xf32>
  %1 = stablehlo.tanh %0 : tensor<8x16xf32>
  %2 = stablehlo.broadcast_in_dim %b, dims = [0] : (tensor<8xf32>) -> tensor<8x16xf32>
  %3 = stablehlo.multiply %1, %2 : tensor<8x16xf32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %4 = stablehlo.reduce(%3 init: %z) applies stablehlo.add
    across dimensions = [0, 1] : (tensor<8x16xf32>, tensor<f32>) -> tensor<f32>
  return %4 : tensor<f32>
}"""
LOOP = """func.func @main(%x: tensor<5xf64>, %n: tensor<i32>) -> tensor<f64> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<5xf64>
  cond {
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %s = stablehlo.sine %a : tensor<5xf64>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %s : tensor<i32>, tensor<5xf64>
  }
  %z = stablehlo.constant dense<0.0> : tensor<f64>
  %1 = stablehlo.reduce(%r#1 init: %z) applies stablehlo.add
    across dimensions = [0] : (tensor<5xf64>, tensor<f64>) -> tensor<f64>
  return %1 : tensor<f64>
}"""
