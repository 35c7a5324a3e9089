// RUN: tiduc opt %s --pass-pipeline='tidu-legalize-for-iree' | filecheck %s

// Indices are clamped as unsigned numbers before they are converted to signed ones.

// CHECK:      %[[I:.*]] = stablehlo.clamp %{{.*}}, %arg1, %{{.*}} : tensor<4x1xui8>
// CHECK-NEXT: %[[J:.*]] = stablehlo.convert %[[I]] : (tensor<4x1xui8>) -> tensor<4x1xi32>
// CHECK-NEXT: "stablehlo.gather"(%arg0, %[[J]])
func.func @main(%x: tensor<5xf32>, %i: tensor<4x1xui8>) -> tensor<4xf32> {
  %0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0],
    start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>}>
    : (tensor<5xf32>, tensor<4x1xui8>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
