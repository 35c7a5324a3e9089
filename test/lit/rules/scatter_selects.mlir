// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// The body also selects update numbers, counted from 1, to record which update each element comes from, or none (0).

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<4xf64>
// JVP-NEXT:    %[[C:.*]] = stablehlo.constant dense<0> : tensor<4xi32>
// JVP-NEXT:    %[[C_0:.*]] = stablehlo.constant dense<0> : tensor<5x1xi32>
// JVP-NEXT:    %[[C_1:.*]] = stablehlo.constant dense<3> : tensor<5x1xi32>
// JVP-NEXT:    %[[C_2:.*]] = stablehlo.constant dense<0> : tensor<5xi32>
// JVP-NEXT:    %[[C_3:.*]] = stablehlo.constant dense<1> : tensor<5xi32>
// JVP-NEXT:    %[[CST_4:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<5xf64>
// JVP-NEXT:    %[[V0:.*]]:2 = "stablehlo.scatter"(%arg0, %arg1, %arg2, %arg3, %arg4) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
// JVP-NEXT:    ^bb0(%arg7: tensor<f64>, %arg8: tensor<i32>, %arg9: tensor<f64>, %arg10: tensor<i32>):
// JVP-NEXT:    %[[V14:.*]] = stablehlo.compare GE, %arg7, %arg9 : (tensor<f64>, tensor<f64>) -> tensor<i1>
// JVP-NEXT:    %[[V15:.*]] = stablehlo.select %[[V14]], %arg7, %arg9 : tensor<i1>, tensor<f64>
// JVP-NEXT:    %[[V16:.*]] = stablehlo.select %[[V14]], %arg8, %arg10 : tensor<i1>, tensor<i32>
// JVP-NEXT:    stablehlo.return %[[V15]], %[[V16]] : tensor<f64>, tensor<i32>
// JVP-NEXT:    }) : (tensor<4xf64>, tensor<4xi32>, tensor<5x1xi32>, tensor<5xf64>, tensor<5xi32>) -> (tensor<4xf64>, tensor<4xi32>)
// JVP-NEXT:    %[[V1:.*]] = stablehlo.iota dim = 0 : tensor<5xi32>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.add %[[V1]], %[[C_3]] : tensor<5xi32>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.clamp %[[C_0]], %arg2, %[[C_1]] : tensor<5x1xi32>
// JVP-NEXT:    %[[V4:.*]]:3 = "stablehlo.scatter"(%arg0, %arg1, %[[C]], %arg2, %arg3, %arg4, %[[V2]]) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
// JVP-NEXT:    ^bb0(%arg7: tensor<f64>, %arg8: tensor<i32>, %arg9: tensor<i32>, %arg10: tensor<f64>, %arg11: tensor<i32>, %arg12: tensor<i32>):
// JVP-NEXT:    %[[V14:.*]] = stablehlo.compare GE, %arg7, %arg10 : (tensor<f64>, tensor<f64>) -> tensor<i1>
// JVP-NEXT:    %[[V15:.*]] = stablehlo.select %[[V14]], %arg7, %arg10 : tensor<i1>, tensor<f64>
// JVP-NEXT:    %[[V16:.*]] = stablehlo.select %[[V14]], %arg8, %arg11 : tensor<i1>, tensor<i32>
// JVP-NEXT:    %[[V17:.*]] = stablehlo.select %[[V14]], %arg9, %arg12 : tensor<i1>, tensor<i32>
// JVP-NEXT:    stablehlo.return %[[V15]], %[[V16]], %[[V17]] : tensor<f64>, tensor<i32>, tensor<i32>
// JVP-NEXT:    }) : (tensor<4xf64>, tensor<4xi32>, tensor<4xi32>, tensor<5x1xi32>, tensor<5xf64>, tensor<5xi32>, tensor<5xi32>) -> (tensor<4xf64>, tensor<4xi32>, tensor<4xi32>)
// JVP-NEXT:    %[[V5:.*]] = "stablehlo.gather"(%[[V4]]#2, %[[V3]]) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1>}> : (tensor<4xi32>, tensor<5x1xi32>) -> tensor<5xi32>
// JVP-NEXT:    %[[V6:.*]] = stablehlo.compare EQ, %[[V3]], %arg2 : (tensor<5x1xi32>, tensor<5x1xi32>) -> tensor<5x1xi1>
// JVP-NEXT:    %[[V7:.*]] = stablehlo.reshape %[[V6]] : (tensor<5x1xi1>) -> tensor<5xi1>
// JVP-NEXT:    %[[V8:.*]] = stablehlo.select %[[V7]], %[[V5]], %[[C_2]] : tensor<5xi1>, tensor<5xi32>
// JVP-NEXT:    %[[V9:.*]] = stablehlo.compare EQ, %[[V8]], %[[V2]] : (tensor<5xi32>, tensor<5xi32>) -> tensor<5xi1>
// JVP-NEXT:    %[[V10:.*]] = stablehlo.select %[[V9]], %arg6, %[[CST_4]] : tensor<5xi1>, tensor<5xf64>
// JVP-NEXT:    %[[V11:.*]] = stablehlo.compare EQ, %[[V4]]#2, %[[C]] : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
// JVP-NEXT:    %[[V12:.*]] = stablehlo.select %[[V11]], %arg5, %[[CST]] : tensor<4xi1>, tensor<4xf64>
// JVP-NEXT:    %[[V13:.*]] = "stablehlo.scatter"(%[[V12]], %arg2, %[[V10]]) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
// JVP-NEXT:    ^bb0(%arg7: tensor<f64>, %arg8: tensor<f64>):
// JVP-NEXT:    %[[V14:.*]] = stablehlo.add %arg7, %arg8 : tensor<f64>
// JVP-NEXT:    stablehlo.return %[[V14]] : tensor<f64>
// JVP-NEXT:    }) : (tensor<4xf64>, tensor<5x1xi32>, tensor<5xf64>) -> tensor<4xf64>
// JVP-NEXT:    return %[[V0]]#0, %[[V0]]#1, %[[V13]] : tensor<4xf64>, tensor<4xi32>, tensor<4xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[C:.*]] = stablehlo.constant dense<0> : tensor<5xi32>
// VJP-NEXT:    %[[C_0:.*]] = stablehlo.constant dense<0> : tensor<5x1xi32>
// VJP-NEXT:    %[[C_1:.*]] = stablehlo.constant dense<3> : tensor<5x1xi32>
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<5xf64>
// VJP-NEXT:    %[[C_2:.*]] = stablehlo.constant dense<1> : tensor<5xi32>
// VJP-NEXT:    %[[C_3:.*]] = stablehlo.constant dense<0> : tensor<4xi32>
// VJP-NEXT:    %[[CST_4:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<4xf64>
// VJP-NEXT:    %[[V0:.*]]:2 = "stablehlo.scatter"(%arg0, %arg1, %arg2, %arg3, %arg4) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
// VJP-NEXT:    ^bb0(%arg6: tensor<f64>, %arg7: tensor<i32>, %arg8: tensor<f64>, %arg9: tensor<i32>):
// VJP-NEXT:    %[[V15:.*]] = stablehlo.compare GE, %arg6, %arg8 : (tensor<f64>, tensor<f64>) -> tensor<i1>
// VJP-NEXT:    %[[V16:.*]] = stablehlo.select %[[V15]], %arg6, %arg8 : tensor<i1>, tensor<f64>
// VJP-NEXT:    %[[V17:.*]] = stablehlo.select %[[V15]], %arg7, %arg9 : tensor<i1>, tensor<i32>
// VJP-NEXT:    stablehlo.return %[[V16]], %[[V17]] : tensor<f64>, tensor<i32>
// VJP-NEXT:    }) : (tensor<4xf64>, tensor<4xi32>, tensor<5x1xi32>, tensor<5xf64>, tensor<5xi32>) -> (tensor<4xf64>, tensor<4xi32>)
// VJP-NEXT:    %[[V1:.*]] = stablehlo.iota dim = 0 : tensor<5xi32>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.add %[[V1]], %[[C_2]] : tensor<5xi32>
// VJP-NEXT:    %[[V3:.*]]:3 = "stablehlo.scatter"(%arg0, %arg1, %[[C_3]], %arg2, %arg3, %arg4, %[[V2]]) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
// VJP-NEXT:    ^bb0(%arg6: tensor<f64>, %arg7: tensor<i32>, %arg8: tensor<i32>, %arg9: tensor<f64>, %arg10: tensor<i32>, %arg11: tensor<i32>):
// VJP-NEXT:    %[[V15:.*]] = stablehlo.compare GE, %arg6, %arg9 : (tensor<f64>, tensor<f64>) -> tensor<i1>
// VJP-NEXT:    %[[V16:.*]] = stablehlo.select %[[V15]], %arg6, %arg9 : tensor<i1>, tensor<f64>
// VJP-NEXT:    %[[V17:.*]] = stablehlo.select %[[V15]], %arg7, %arg10 : tensor<i1>, tensor<i32>
// VJP-NEXT:    %[[V18:.*]] = stablehlo.select %[[V15]], %arg8, %arg11 : tensor<i1>, tensor<i32>
// VJP-NEXT:    stablehlo.return %[[V16]], %[[V17]], %[[V18]] : tensor<f64>, tensor<i32>, tensor<i32>
// VJP-NEXT:    }) : (tensor<4xf64>, tensor<4xi32>, tensor<4xi32>, tensor<5x1xi32>, tensor<5xf64>, tensor<5xi32>, tensor<5xi32>) -> (tensor<4xf64>, tensor<4xi32>, tensor<4xi32>)
// VJP-NEXT:    %[[V4:.*]] = stablehlo.compare EQ, %[[V3]]#2, %[[C_3]] : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.select %[[V4]], %arg5, %[[CST_4]] : tensor<4xi1>, tensor<4xf64>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.clamp %[[C_0]], %arg2, %[[C_1]] : tensor<5x1xi32>
// VJP-NEXT:    %[[V7:.*]] = "stablehlo.gather"(%arg5, %[[V6]]) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1>}> : (tensor<4xf64>, tensor<5x1xi32>) -> tensor<5xf64>
// VJP-NEXT:    %[[V8:.*]] = stablehlo.compare EQ, %[[V6]], %arg2 : (tensor<5x1xi32>, tensor<5x1xi32>) -> tensor<5x1xi1>
// VJP-NEXT:    %[[V9:.*]] = stablehlo.reshape %[[V8]] : (tensor<5x1xi1>) -> tensor<5xi1>
// VJP-NEXT:    %[[V10:.*]] = stablehlo.select %[[V9]], %[[V7]], %[[CST]] : tensor<5xi1>, tensor<5xf64>
// VJP-NEXT:    %[[V11:.*]] = "stablehlo.gather"(%[[V3]]#2, %[[V6]]) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1>}> : (tensor<4xi32>, tensor<5x1xi32>) -> tensor<5xi32>
// VJP-NEXT:    %[[V12:.*]] = stablehlo.select %[[V9]], %[[V11]], %[[C]] : tensor<5xi1>, tensor<5xi32>
// VJP-NEXT:    %[[V13:.*]] = stablehlo.compare EQ, %[[V12]], %[[V2]] : (tensor<5xi32>, tensor<5xi32>) -> tensor<5xi1>
// VJP-NEXT:    %[[V14:.*]] = stablehlo.select %[[V13]], %[[V10]], %[[CST]] : tensor<5xi1>, tensor<5xf64>
// VJP-NEXT:    return %[[V0]]#0, %[[V0]]#1, %[[V5]], %[[V14]] : tensor<4xf64>, tensor<4xi32>, tensor<4xf64>, tensor<5xf64>

func.func @main(%x: tensor<4xf64>, %y: tensor<4xi32>, %i: tensor<5x1xi32>, %u: tensor<5xf64>, %v: tensor<5xi32>) -> (tensor<4xf64>, tensor<4xi32>) {
  %0:2 = "stablehlo.scatter"(%x, %y, %i, %u, %v) ({
    ^bb0(%a: tensor<f64>, %b: tensor<i32>, %c: tensor<f64>, %d: tensor<i32>):
      %p = stablehlo.compare GE, %a, %c : (tensor<f64>, tensor<f64>) -> tensor<i1>
      %e = stablehlo.select %p, %a, %c : tensor<i1>, tensor<f64>
      %f = stablehlo.select %p, %b, %d : tensor<i1>, tensor<i32>
      stablehlo.return %e, %f : tensor<f64>, tensor<i32>
  }) {
    scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
      index_vector_dim = 1>
  } : (tensor<4xf64>, tensor<4xi32>, tensor<5x1xi32>, tensor<5xf64>, tensor<5xi32>) -> (tensor<4xf64>, tensor<4xi32>)
  return %0#0, %0#1 : tensor<4xf64>, tensor<4xi32>
}
