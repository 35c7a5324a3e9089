// RUN: tiduc opt %s --pass-pipeline=tidu-import --split-input-file | filecheck %s

// Each rng gets its own stream, which starts from two words that are derived from the seed.

// CHECK-LABEL: "tidu.graph"
// CHECK-NEXT:  ^bb0(%[[A:.*]]: tensor<f32>, %[[B:.*]]: tensor<f32>, %[[SEED:.*]]: tensor<2xui64>):
// CHECK:       %{{.*}}, %[[KEY:.*]] = stablehlo.rng_bit_generator %[[SEED]], algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<1xui64>)
// CHECK:       %[[STATE:.*]] = stablehlo.concatenate %[[KEY]], %{{.*}}, dim = 0
// CHECK:       %{{.*}}, %[[WORDS:.*]] = stablehlo.rng_bit_generator %[[STATE]], algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4xui64>)
// CHECK:       %[[FIRST:.*]] = stablehlo.slice %[[WORDS]] [0:2]
// CHECK:       %[[SECOND:.*]] = stablehlo.slice %[[WORDS]] [2:4]
// CHECK:       stablehlo.rng_bit_generator %[[FIRST]], algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<3xui32>)
// CHECK:       stablehlo.bitcast_convert
// CHECK:       stablehlo.rng_bit_generator %[[SECOND]], algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<3xui32>)
// CHECK:       chlo.erf_inv
// CHECK-NOT:   stablehlo.rng %
// CHECK:       arg_attrs = [{}, {}, {tidu.name = "seed"}]
// CHECK-SAME:  inputs = [@a, @b, @seed]
func.func @main(%a: tensor<f32>, %b: tensor<f32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %shape = stablehlo.constant dense<[3]> : tensor<1xi64>
  %0 = stablehlo.rng %a, %b, %shape, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<3xf32>
  %1 = stablehlo.rng %a, %b, %shape, distribution = NORMAL : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<3xf32>
  return %0, %1 : tensor<3xf32>, tensor<3xf32>
}

// -----

// A loop carries a state, from which each iteration derives the words for its draws, including draws in branches.

// CHECK-LABEL: "tidu.graph"
// CHECK:       stablehlo.while({{.*}}) : tensor<3xf32>, tensor<i1>, tensor<2xui64>
// CHECK:       cond
// CHECK:       do
// CHECK:       %[[NEXT:.*]], %[[WORDS:.*]] = stablehlo.rng_bit_generator %{{.*}}, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<2xui64>)
// CHECK:       %[[STREAM:.*]] = stablehlo.slice %[[WORDS]] [0:2]
// CHECK:       "stablehlo.if"
// CHECK:       stablehlo.rng_bit_generator %[[STREAM]]
// CHECK:       stablehlo.return %{{.*}}, %{{.*}}, %[[NEXT]] : tensor<3xf32>, tensor<i1>, tensor<2xui64>
func.func @main(%x: tensor<3xf32>, %p: tensor<i1>) -> tensor<3xf32> {
  %a = stablehlo.constant dense<0.0> : tensor<f32>
  %b = stablehlo.constant dense<1.0> : tensor<f32>
  %shape = stablehlo.constant dense<[3]> : tensor<1xi64>
  %0:2 = stablehlo.while(%y = %x, %q = %p) : tensor<3xf32>, tensor<i1>
  cond {
    stablehlo.return %q : tensor<i1>
  } do {
    %1 = "stablehlo.if"(%q) ({
      %2 = stablehlo.rng %a, %b, %shape, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<3xf32>
      stablehlo.return %2 : tensor<3xf32>
    }, {
      stablehlo.return %y : tensor<3xf32>
    }) : (tensor<i1>) -> tensor<3xf32>
    stablehlo.return %1, %q : tensor<3xf32>, tensor<i1>
  }
  return %0#0 : tensor<3xf32>
}

// -----

// An rng without a use is dropped, and needs no seed.

// CHECK-LABEL: "tidu.graph"
// CHECK-NEXT:  ^bb0(%[[A:.*]]: tensor<f32>):
// CHECK-NOT:   rng
// CHECK:       inputs = [@a]
func.func @main(%a: tensor<f32>) -> tensor<f32> {
  %shape = stablehlo.constant dense<[3]> : tensor<1xi64>
  %0 = stablehlo.rng %a, %a, %shape, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<3xf32>
  return %a : tensor<f32>
}
