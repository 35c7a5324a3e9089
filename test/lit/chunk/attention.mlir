// RUN: tiduc opt %s --pass-pipeline='tidu-import,tidu-chunk{limit=65536 aim=16384}' | filecheck %s

// A table of 127 x 160 scores is computed in 4 chunks of 26 rows, and 23 rows follow the loop.

// CHECK:      "tidu.graph"() ({
// CHECK-NEXT: ^bb0(%[[Q:.*]]: tensor<26x4xf32>, %[[K:.*]]: tensor<160x4xf32>, %[[V:.*]]: tensor<160x4xf32>):
// CHECK-NEXT:   %[[S:.*]] = stablehlo.dot_general %[[Q]], %[[K]], contracting_dims = [1] x [1] : {{.*}} -> tensor<26x160xf32>
// CHECK:        stablehlo.reduce(%[[S]] init: %{{.*}}) applies stablehlo.maximum across dimensions = [1]
// CHECK:        %[[D:.*]] = stablehlo.subtract %[[S]], %{{.*}} : tensor<26x160xf32>
// CHECK-NEXT:   %[[E:.*]] = stablehlo.exponential %[[D]] : tensor<26x160xf32>
// CHECK-NEXT:   %[[O:.*]] = stablehlo.dot_general %[[E]], %[[V]], contracting_dims = [1] x [0] : {{.*}} -> tensor<26x4xf32>
// CHECK-NEXT:   stablehlo.return %[[O]] : tensor<26x4xf32>
// CHECK:        sym_name = "main.chunk0", sym_visibility = "private"
// CHECK:        %[[P:.*]] = stablehlo.slice %arg0 [0:104, 0:4]
// CHECK-NEXT:   %[[C:.*]] = stablehlo.reshape %[[P]] : (tensor<104x4xf32>) -> tensor<4x26x4xf32>
// CHECK-NEXT:   %[[L:.*]] = stablehlo.custom_call @tidu.loop(%[[C]], %arg1, %arg2) {called_computations = [@main.chunk0]
// CHECK:        %[[R:.*]] = stablehlo.reshape %[[L]] : (tensor<4x26x4xf32>) -> tensor<104x4xf32>
// CHECK:        stablehlo.dot_general %{{.*}} -> tensor<23x160xf32>
// CHECK:        %[[Z:.*]] = stablehlo.concatenate %[[R]], %{{.*}}, dim = 0
// CHECK-NEXT:   stablehlo.return %[[Z]] : tensor<127x4xf32>
func.func @main(%q: tensor<127x4xf32>, %k: tensor<160x4xf32>, %v: tensor<160x4xf32>) -> tensor<127x4xf32> {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %s = stablehlo.dot_general %q, %k, contracting_dims = [1] x [1] : (tensor<127x4xf32>, tensor<160x4xf32>) -> tensor<127x160xf32>
  %m = stablehlo.reduce(%s init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<127x160xf32>, tensor<f32>) -> tensor<127xf32>
  %b = stablehlo.broadcast_in_dim %m, dims = [0] : (tensor<127xf32>) -> tensor<127x160xf32>
  %d = stablehlo.subtract %s, %b : tensor<127x160xf32>
  %e = stablehlo.exponential %d : tensor<127x160xf32>
  %o = stablehlo.dot_general %e, %v, contracting_dims = [1] x [0] : (tensor<127x160xf32>, tensor<160x4xf32>) -> tensor<127x4xf32>
  return %o : tensor<127x4xf32>
}
