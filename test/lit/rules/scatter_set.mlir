// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// Updates may overlap: a scatter of their numbers finds the update that remains. Overwritten elements have the tangent
// zero, to which the tangent of the remaining update is added.

// JVP-LABEL: func.func @main
// JVP-DAG:     %[[NONE:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<5x3xf64>
// JVP-DAG:     %[[NOBODY:.*]] = stablehlo.constant dense<0> : tensor<4x3xi32>
// JVP:         "stablehlo.scatter"(%arg0, %arg1, %arg2)
// JVP:         %[[IOTA:.*]] = stablehlo.iota dim = 0 : tensor<15xi32>
// JVP-NEXT:    %[[SHAPED:.*]] = stablehlo.reshape %[[IOTA]]
// JVP-NEXT:    %[[NUMBERS:.*]] = stablehlo.add %[[SHAPED]]
// JVP:         %[[WINNERS:.*]] = "stablehlo.scatter"(%[[NOBODY]], %arg1, %[[NUMBERS]])
// JVP-NEXT:    ^bb0(%[[OLD:.*]]: tensor<i32>, %[[NEW:.*]]: tensor<i32>):
// JVP-NEXT:      stablehlo.return %[[NEW]] : tensor<i32>
// JVP:         %[[LANDED:.*]] = "stablehlo.gather"(%[[WINNERS]]
// JVP:         %[[INSIDE:.*]] = stablehlo.select %{{.*}}, %[[LANDED]]
// JVP-NEXT:    %[[WON:.*]] = stablehlo.compare EQ, %[[INSIDE]], %[[NUMBERS]]
// JVP-NEXT:    %[[DU:.*]] = stablehlo.select %[[WON]], %arg4, %[[NONE]]
// JVP-NEXT:    %[[DX:.*]] = "stablehlo.scatter"(%arg3, %arg1, %[[NONE]])
// JVP:         "stablehlo.scatter"(%[[DX]], %arg1, %[[DU]])
// JVP:           stablehlo.add

// VJP-LABEL: func.func @main
// VJP:         %[[NONE:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<5x3xf64>
// VJP:         %[[CX:.*]] = "stablehlo.scatter"(%arg3, %arg1, %[[NONE]])
// VJP:         %[[READ:.*]] = "stablehlo.gather"(%arg3
// VJP:         %[[CU:.*]] = stablehlo.select %{{.*}}, %[[READ]], %[[NONE]]
// VJP:         %[[WON:.*]] = stablehlo.compare EQ, %{{.*}} : (tensor<5x3xi32>
// VJP-NEXT:    %[[OF_WINNERS:.*]] = stablehlo.select %[[WON]], %[[CU]], %[[NONE]]
// VJP-NEXT:    return %{{.*}}, %[[CX]], %[[OF_WINNERS]]

func.func @main(%x: tensor<4x3xf64>, %i: tensor<5x1xi32>, %u: tensor<5x3xf64>) -> tensor<4x3xf64> {
  %0 = "stablehlo.scatter"(%x, %i, %u) ({
    ^bb0(%a: tensor<f64>, %b: tensor<f64>):
      stablehlo.return %b : tensor<f64>
  }) {
    scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1>
  } : (tensor<4x3xf64>, tensor<5x1xi32>, tensor<5x3xf64>) -> tensor<4x3xf64>
  return %0 : tensor<4x3xf64>
}
