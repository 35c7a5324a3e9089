// RUN: tiduc opt %s --pass-pipeline='tidu-legalize-for-iree{cpu=false}' | filecheck %s
// RUN: tiduc opt %s --pass-pipeline='tidu-legalize-for-iree' | filecheck %s --check-prefix=CPU

// An extra row receives the updates out of range, and is then cut off. On CPUs, one dispatch needs no extra row.

// CPU-NOT: stablehlo.concatenate
// CPU:     "flow.dispatch.region"

// CHECK:      %[[I:.*]] = linalg.generic
// CHECK:      arith.cmpi ult, %{{.*}}, %c5
// CHECK:      arith.select
// CHECK:      %[[J:.*]] = stablehlo.reshape %[[I]] : (tensor<3xi32>) -> tensor<3x1xi32>
// CHECK:      %[[X:.*]] = stablehlo.concatenate %arg0, %{{.*}} -> tensor<6x2xf32>
// CHECK:      %[[Y:.*]] = "stablehlo.scatter"(%[[X]], %[[J]], %arg2)
// CHECK:      stablehlo.slice %[[Y]] [0:5, 0:2]
func.func @main(%x: tensor<5x2xf32>, %i: tensor<3x1xi32>, %u: tensor<3x2xf32>) -> tensor<5x2xf32> {
  %0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<
    update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
    index_vector_dim = 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      stablehlo.return %b : tensor<f32>
    }) : (tensor<5x2xf32>, tensor<3x1xi32>, tensor<3x2xf32>) -> tensor<5x2xf32>
  return %0 : tensor<5x2xf32>
}
