// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// Whether the operand has size 1 is known only at run time: n elements are repeated m / n times to m elements.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = stablehlo.dynamic_broadcast_in_dim %arg0, %arg1, dims = [0] : (tensor<?xf64>, tensor<1xi32>) -> tensor<?xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.dynamic_broadcast_in_dim %arg2, %arg1, dims = [0] : (tensor<?xf64>, tensor<1xi32>) -> tensor<?xf64>
// JVP-NEXT:    return %[[V0]], %[[V1]] : tensor<?xf64>, tensor<?xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[C:.*]] = stablehlo.constant dense<1> : tensor<i32>
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.dynamic_broadcast_in_dim %arg0, %arg1, dims = [0] : (tensor<?xf64>, tensor<1xi32>) -> tensor<?xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.get_dimension_size %arg0, dim = 0 : (tensor<?xf64>) -> tensor<i32>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.maximum %[[V1]], %[[C]] : tensor<i32>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.reshape %arg1 : (tensor<1xi32>) -> tensor<i32>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.divide %[[V3]], %[[V2]] : tensor<i32>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.reshape %[[V4]] : (tensor<i32>) -> tensor<1xi32>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.reshape %[[V1]] : (tensor<i32>) -> tensor<1xi32>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.concatenate %[[V6]], %[[V5]], dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
// VJP-NEXT:    %[[V8:.*]] = stablehlo.dynamic_reshape %arg2, %[[V7]] : (tensor<?xf64>, tensor<2xi32>) -> tensor<?x?xf64>
// VJP-NEXT:    %[[V9:.*]] = stablehlo.reduce(%[[V8]] init: %[[CST]]) applies stablehlo.add across dimensions = [1] : (tensor<?x?xf64>, tensor<f64>) -> tensor<?xf64>
// VJP-NEXT:    return %[[V0]], %[[V9]] : tensor<?xf64>, tensor<?xf64>

func.func @main(%x: tensor<?xf64>, %n: tensor<1xi32>) -> tensor<?xf64> {
  %0 = stablehlo.dynamic_broadcast_in_dim %x, %n, dims = [0] : (tensor<?xf64>, tensor<1xi32>) -> tensor<?xf64>
  return %0 : tensor<?xf64>
}
