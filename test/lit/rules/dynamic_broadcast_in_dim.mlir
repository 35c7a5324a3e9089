// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --input 3xf64=1,2,3 --input 2x3xf64=1,2,3,4,5,6 --engine reference

// The transpose sums over expanded dimensions, with the operand's size; a tangent has its primal's size.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = stablehlo.get_dimension_size %arg0, dim = 0 : (tensor<?xf64>) -> tensor<i32>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.reshape %[[V0]] : (tensor<i32>) -> tensor<1xi32>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.get_dimension_size %arg1, dim = 0 : (tensor<?x?xf64>) -> tensor<i32>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.reshape %[[V2]] : (tensor<i32>) -> tensor<1xi32>
// JVP-NEXT:    %[[V4:.*]] = stablehlo.concatenate %[[V3]], %[[V1]], dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
// JVP-NEXT:    %[[V5:.*]] = stablehlo.dynamic_broadcast_in_dim %arg0, %[[V4]], dims = [1] {known_nonexpanding_dimensions = array<i64: 0>} : (tensor<?xf64>, tensor<2xi32>) -> tensor<?x?xf64>
// JVP-NEXT:    %[[V6:.*]] = stablehlo.dynamic_broadcast_in_dim %arg2, %[[V4]], dims = [1] {known_nonexpanding_dimensions = array<i64: 0>} : (tensor<?xf64>, tensor<2xi32>) -> tensor<?x?xf64>
// JVP-NEXT:    return %[[V5]], %[[V6]] : tensor<?x?xf64>, tensor<?x?xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.get_dimension_size %arg0, dim = 0 : (tensor<?xf64>) -> tensor<i32>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.reshape %[[V0]] : (tensor<i32>) -> tensor<1xi32>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.get_dimension_size %arg1, dim = 0 : (tensor<?x?xf64>) -> tensor<i32>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.reshape %[[V2]] : (tensor<i32>) -> tensor<1xi32>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.concatenate %[[V3]], %[[V1]], dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.dynamic_broadcast_in_dim %arg0, %[[V4]], dims = [1] {known_nonexpanding_dimensions = array<i64: 0>} : (tensor<?xf64>, tensor<2xi32>) -> tensor<?x?xf64>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.reduce(%arg2 init: %[[CST]]) applies stablehlo.add across dimensions = [0] : (tensor<?x?xf64>, tensor<f64>) -> tensor<?xf64>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.get_dimension_size %arg1, dim = 1 : (tensor<?x?xf64>) -> tensor<i32>
// VJP-NEXT:    %[[V8:.*]] = stablehlo.reshape %[[V7]] : (tensor<i32>) -> tensor<1xi32>
// VJP-NEXT:    %[[V9:.*]] = stablehlo.concatenate %[[V3]], %[[V8]], dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
// VJP-NEXT:    %[[V10:.*]] = stablehlo.dynamic_broadcast_in_dim %[[CST]], %[[V9]], dims = [] : (tensor<f64>, tensor<2xi32>) -> tensor<?x?xf64>
// VJP-NEXT:    return %[[V5]], %[[V6]], %[[V10]] : tensor<?x?xf64>, tensor<?xf64>, tensor<?x?xf64>

func.func @main(%x: tensor<?xf64>, %y: tensor<?x?xf64>) -> tensor<?x?xf64> {
  %0 = stablehlo.get_dimension_size %y, dim = 0 : (tensor<?x?xf64>) -> tensor<i32>
  %1 = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf64>) -> tensor<i32>
  %2 = stablehlo.reshape %0 : (tensor<i32>) -> tensor<1xi32>
  %3 = stablehlo.reshape %1 : (tensor<i32>) -> tensor<1xi32>
  %4 = stablehlo.concatenate %2, %3, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %5 = stablehlo.dynamic_broadcast_in_dim %x, %4, dims = [1] : (tensor<?xf64>, tensor<2xi32>) -> tensor<?x?xf64>
  return %5 : tensor<?x?xf64>
}
