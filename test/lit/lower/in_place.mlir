// RUN: tiduc opt %s --pass-pipeline='tidu-simplify' | filecheck %s

// A value plus a slice padded with zeros, as reverse loops emit it, becomes an update in place.

// CHECK-LABEL: @updated
// CHECK:         %[[OLD:.*]] = stablehlo.dynamic_slice %arg0, %arg2, sizes = [2]
// CHECK-NEXT:    %[[SUM:.*]] = stablehlo.add %[[OLD]], %arg1
// CHECK-NEXT:    stablehlo.dynamic_update_slice %arg0, %[[SUM]], %arg2
// CHECK-NEXT:    return
func.func @updated(%x: tensor<5xf64>, %u: tensor<2xf64>, %i: tensor<i32>) -> tensor<5xf64> {
  %zero = stablehlo.constant dense<0.0> : tensor<5xf64>
  %0 = stablehlo.dynamic_update_slice %zero, %u, %i : (tensor<5xf64>, tensor<2xf64>, tensor<i32>) -> tensor<5xf64>
  %1 = stablehlo.add %x, %0 : tensor<5xf64>
  return %1 : tensor<5xf64>
}

// CHECK-LABEL: @scattered
// CHECK:         %[[NEW:.*]] = "stablehlo.scatter"(%arg0, %arg2, %arg1)
// CHECK:         return %[[NEW]]
func.func @scattered(%x: tensor<5xf64>, %u: tensor<1xf64>, %i: tensor<1x1xi32>) -> tensor<5xf64> {
  %zero = stablehlo.constant dense<0.0> : tensor<5xf64>
  %0 = "stablehlo.scatter"(%zero, %i, %u) ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %sum = stablehlo.add %a, %b : tensor<f64>
    stablehlo.return %sum : tensor<f64>
  }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>} : (tensor<5xf64>, tensor<1x1xi32>, tensor<1xf64>) -> tensor<5xf64>
  %1 = stablehlo.add %0, %x : tensor<5xf64>
  return %1 : tensor<5xf64>
}

// A scatter that replaces elements is not a sum, so it does not change.

// CHECK-LABEL: @set
// CHECK:         stablehlo.add
func.func @set(%x: tensor<5xf64>, %u: tensor<1xf64>, %i: tensor<1x1xi32>) -> tensor<5xf64> {
  %zero = stablehlo.constant dense<0.0> : tensor<5xf64>
  %0 = "stablehlo.scatter"(%zero, %i, %u) ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    stablehlo.return %b : tensor<f64>
  }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>} : (tensor<5xf64>, tensor<1x1xi32>, tensor<1xf64>) -> tensor<5xf64>
  %1 = stablehlo.add %0, %x : tensor<5xf64>
  return %1 : tensor<5xf64>
}
