// RUN: tiduc opt %s --pass-pipeline='tidu-import,tidu-linearize{wrt=x},tidu-batch{size=3}' | filecheck %s

// The primal is not batched, and is read by reference; a residual is broadcast, except in a contraction.

// CHECK:      sym_name = "main"
// CHECK:      sym_name = "L0"
// CHECK:      ^bb0(%arg0: tensor<3x4xf32>):
// CHECK-DAG:    %[[R:.*]] = "tidu.external"() {ref = @L0::@{{.*}}} : () -> tensor<4xf32>
// CHECK:        %[[B:.*]] = stablehlo.broadcast_in_dim %[[R]], dims = [1] : (tensor<4xf32>) -> tensor<3x4xf32>
// CHECK-NEXT:   %[[T:.*]] = stablehlo.multiply %[[B]], %arg0 : tensor<3x4xf32>
// CHECK-NEXT:   %[[W:.*]] = "tidu.external"() {ref = @main::@w} : () -> tensor<4x2xf32>
// CHECK-NEXT:   %[[D:.*]] = stablehlo.dot_general %[[T]], %[[W]], contracting_dims = [1] x [0]
// CHECK-NEXT:   stablehlo.return %[[D]]
// CHECK-NEXT: inputs = [@B0.L0.x], sym_name = "B0", tidu.batch_of = [@L0], tidu.batched = [@L0.x]
func.func @main(%x: tensor<4xf32> {tidu.name = "x"}, %w: tensor<4x2xf32> {tidu.name = "w"}) -> tensor<2xf32> {
  %0 = stablehlo.sine %x : tensor<4xf32>
  %1 = stablehlo.dot_general %0, %w, contracting_dims = [0] x [0] : (tensor<4xf32>, tensor<4x2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
