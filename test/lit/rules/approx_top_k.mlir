// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// The tangents at the returned indices; empty positions get an additional element after the last one.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f32>
// JVP-NEXT:    %[[C:.*]] = stablehlo.constant dense<0> : tensor<2xi32>
// JVP-NEXT:    %[[C_0:.*]] = stablehlo.constant dense<6> : tensor<2xi32>
// JVP-NEXT:    %[[C_1:.*]] = stablehlo.constant dense<-1> : tensor<i32>
// JVP-NEXT:    %[[CST_2:.*]] = stablehlo.constant dense<0xFF800000> : tensor<f32>
// JVP-NEXT:    %[[V0:.*]] = stablehlo.iota dim = 0 : tensor<6xi32>
// JVP-NEXT:    %[[V1:.*]]:2 = stablehlo.custom_call @ApproxTopK(%arg0, %[[V0]], %[[CST_2]], %[[C_1]]) {api_version = 4 : i32, backend_config = {reduction_dim = 0 : i64, top_k = 2 : i64}, called_computations = [@greater]} : (tensor<6xf32>, tensor<6xi32>, tensor<f32>, tensor<i32>) -> (tensor<2xf32>, tensor<2xi32>)
// JVP-NEXT:    %[[V2:.*]] = stablehlo.slice %[[V0]] [0:1] : (tensor<6xi32>) -> tensor<1xi32>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.reshape %[[V2]] : (tensor<1xi32>) -> tensor<i32>
// JVP-NEXT:    %[[V4:.*]] = stablehlo.broadcast_in_dim %[[V3]], dims = [] : (tensor<i32>) -> tensor<2xi32>
// JVP-NEXT:    %[[V5:.*]] = stablehlo.add %[[V4]], %[[V1]]#1 : tensor<2xi32>
// JVP-NEXT:    %[[V6:.*]] = stablehlo.compare LT, %[[V1]]#1, %[[C]] : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
// JVP-NEXT:    %[[V7:.*]] = stablehlo.select %[[V6]], %[[C_0]], %[[V5]] : tensor<2xi1>, tensor<2xi32>
// JVP-NEXT:    %[[V8:.*]] = stablehlo.reshape %[[V7]] : (tensor<2xi32>) -> tensor<2x1xi32>
// JVP-NEXT:    %[[V9:.*]] = stablehlo.pad %arg1, %[[CST]], low = [0], high = [1], interior = [0] : (tensor<6xf32>, tensor<f32>) -> tensor<7xf32>
// JVP-NEXT:    %[[V10:.*]] = "stablehlo.gather"(%[[V9]], %[[V8]]) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1>}> : (tensor<7xf32>, tensor<2x1xi32>) -> tensor<2xf32>
// JVP-NEXT:    return %[[V1]]#0, %[[V1]]#1, %[[V10]] : tensor<2xf32>, tensor<2xi32>, tensor<2xf32>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<7xf32>
// VJP-NEXT:    %[[C:.*]] = stablehlo.constant dense<0> : tensor<2x1xi32>
// VJP-NEXT:    %[[C_0:.*]] = stablehlo.constant dense<0> : tensor<2xi32>
// VJP-NEXT:    %[[C_1:.*]] = stablehlo.constant dense<6> : tensor<2xi32>
// VJP-NEXT:    %[[C_2:.*]] = stablehlo.constant dense<6> : tensor<2x1xi32>
// VJP-NEXT:    %[[C_3:.*]] = stablehlo.constant dense<-1> : tensor<i32>
// VJP-NEXT:    %[[CST_4:.*]] = stablehlo.constant dense<0xFF800000> : tensor<f32>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.iota dim = 0 : tensor<6xi32>
// VJP-NEXT:    %[[V1:.*]]:2 = stablehlo.custom_call @ApproxTopK(%arg0, %[[V0]], %[[CST_4]], %[[C_3]]) {api_version = 4 : i32, backend_config = {reduction_dim = 0 : i64, top_k = 2 : i64}, called_computations = [@greater]} : (tensor<6xf32>, tensor<6xi32>, tensor<f32>, tensor<i32>) -> (tensor<2xf32>, tensor<2xi32>)
// VJP-NEXT:    %[[V2:.*]] = stablehlo.slice %[[V0]] [0:1] : (tensor<6xi32>) -> tensor<1xi32>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.reshape %[[V2]] : (tensor<1xi32>) -> tensor<i32>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.broadcast_in_dim %[[V3]], dims = [] : (tensor<i32>) -> tensor<2xi32>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.add %[[V4]], %[[V1]]#1 : tensor<2xi32>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.compare LT, %[[V1]]#1, %[[C_0]] : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.select %[[V6]], %[[C_1]], %[[V5]] : tensor<2xi1>, tensor<2xi32>
// VJP-NEXT:    %[[V8:.*]] = stablehlo.reshape %[[V7]] : (tensor<2xi32>) -> tensor<2x1xi32>
// VJP-NEXT:    %[[V9:.*]] = stablehlo.clamp %[[C]], %[[V8]], %[[C_2]] : tensor<2x1xi32>
// VJP-NEXT:    %[[V10:.*]] = "stablehlo.scatter"(%[[CST]], %[[V9]], %arg1) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
// VJP-NEXT:    ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
// VJP-NEXT:    %[[V12:.*]] = stablehlo.add %arg2, %arg3 : tensor<f32>
// VJP-NEXT:    stablehlo.return %[[V12]] : tensor<f32>
// VJP-NEXT:    }) : (tensor<7xf32>, tensor<2x1xi32>, tensor<2xf32>) -> tensor<7xf32>
// VJP-NEXT:    %[[V11:.*]] = stablehlo.slice %[[V10]] [0:6] : (tensor<7xf32>) -> tensor<6xf32>
// VJP-NEXT:    return %[[V1]]#0, %[[V1]]#1, %[[V11]] : tensor<2xf32>, tensor<2xi32>, tensor<6xf32>

func.func @main(%x: tensor<6xf32>) -> (tensor<2xf32>, tensor<2xi32>) {
  %i = stablehlo.iota dim = 0 : tensor<6xi32>
  %c = stablehlo.constant dense<-1> : tensor<i32>
  %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0:2 = stablehlo.custom_call @ApproxTopK(%x, %i, %cst, %c) {called_computations = [@greater], mhlo.backend_config = {reduction_dim = 0 : i64, top_k = 2 : i64}} : (tensor<6xf32>, tensor<6xi32>, tensor<f32>, tensor<i32>) -> (tensor<2xf32>, tensor<2xi32>)
  return %0#0, %0#1 : tensor<2xf32>, tensor<2xi32>
}
func.func private @greater(%a: tensor<f32>, %b: tensor<f32>, %m: tensor<i32>, %n: tensor<i32>) -> tensor<i1> {
  %0 = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %0 : tensor<i1>
}
