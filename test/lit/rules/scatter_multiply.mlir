// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc jvp %s --wrt 0 | filecheck %s --check-prefix=OPERAND
// RUN: tiduc -q check %s --engine reference
// RUN: tiduc -q check %s --wrt 0 --engine reference

// Updates are sorted by index, and multiplied along runs of equal indices, without a division.

// VJP-LABEL: func.func @main
// VJP:         %[[Y:.*]] = "stablehlo.scatter"(%arg0, %arg1, %arg2)
// VJP:         %[[CX:.*]] = "stablehlo.scatter"(%arg3, %arg1, %arg2)
// VJP:         %[[PLACES:.*]] = "stablehlo.gather"
// VJP:         %[[SORTED:.*]]:2 = "stablehlo.sort"
// VJP:         stablehlo.compare LT
// VJP:         %[[CT:.*]] = stablehlo.multiply %arg0, %arg3
// VJP-NEXT:    "stablehlo.gather"(%[[CT]],
// VJP:         %[[WHERE:.*]] = stablehlo.reshape %[[SORTED]]#1
// VJP-NEXT:    "stablehlo.gather"(%arg2, %[[WHERE]])
// VJP-NOT:     stablehlo.divide
// VJP:         %[[CU:.*]] = "stablehlo.scatter"
// VJP:         return %[[Y]], %[[CX]], %[[CU]]

// OPERAND-LABEL: func.func @main
// OPERAND:         %[[Y:.*]] = "stablehlo.scatter"(%arg0, %arg1, %arg2)
// OPERAND:         %[[DY:.*]] = "stablehlo.scatter"(%arg3, %arg1, %arg2)
// OPERAND:         return %[[Y]], %[[DY]]

func.func @main(%x: tensor<4xf64>, %i: tensor<5x1xi32>, %u: tensor<5xf64>) -> tensor<4xf64> {
  %0 = "stablehlo.scatter"(%x, %i, %u) ({
    ^bb0(%a: tensor<f64>, %b: tensor<f64>):
      %c = stablehlo.multiply %a, %b : tensor<f64>
      stablehlo.return %c : tensor<f64>
  }) {
    scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
      index_vector_dim = 1>, unique_indices = false
  } : (tensor<4xf64>, tensor<5x1xi32>, tensor<5xf64>) -> tensor<4xf64>
  return %0 : tensor<4xf64>
}
