// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --input 2x3xf64=1,2,3,4,5,6 --engine reference

// Constants and cotangents take their sizes from a primal; no residual is kept only for its size.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<f64>
// JVP-NEXT:    %[[C:.*]] = stablehlo.constant dense<3> : tensor<1xi32>
// JVP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// JVP-NEXT:    %[[V0:.*]] = stablehlo.tanh %arg0 : tensor<?x3xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.reduce(%[[V0]] init: %[[CST_0]]) applies stablehlo.add across dimensions = [1] : (tensor<?x3xf64>, tensor<f64>) -> tensor<?xf64>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.multiply %[[V0]], %[[V0]] : tensor<?x3xf64>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.get_dimension_size %arg0, dim = 0 : (tensor<?x3xf64>) -> tensor<i32>
// JVP-NEXT:    %[[V4:.*]] = stablehlo.reshape %[[V3]] : (tensor<i32>) -> tensor<1xi32>
// JVP-NEXT:    %[[V5:.*]] = stablehlo.concatenate %[[V4]], %[[C]], dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
// JVP-NEXT:    %[[V6:.*]] = stablehlo.dynamic_broadcast_in_dim %[[CST]], %[[V5]], dims = [] : (tensor<f64>, tensor<2xi32>) -> tensor<?x3xf64>
// JVP-NEXT:    %[[V7:.*]] = stablehlo.subtract %[[V6]], %[[V2]] : tensor<?x3xf64>
// JVP-NEXT:    %[[V8:.*]] = stablehlo.multiply %[[V7]], %arg1 : tensor<?x3xf64>
// JVP-NEXT:    %[[V9:.*]] = stablehlo.reduce(%[[V8]] init: %[[CST_0]]) applies stablehlo.add across dimensions = [1] : (tensor<?x3xf64>, tensor<f64>) -> tensor<?xf64>
// JVP-NEXT:    return %[[V1]], %[[V9]] : tensor<?xf64>, tensor<?xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[C:.*]] = stablehlo.constant dense<3> : tensor<1xi32>
// VJP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.tanh %arg0 : tensor<?x3xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.reduce(%[[V0]] init: %[[CST_0]]) applies stablehlo.add across dimensions = [1] : (tensor<?x3xf64>, tensor<f64>) -> tensor<?xf64>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.get_dimension_size %arg0, dim = 0 : (tensor<?x3xf64>) -> tensor<i32>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.reshape %[[V2]] : (tensor<i32>) -> tensor<1xi32>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.concatenate %[[V3]], %[[C]], dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.dynamic_broadcast_in_dim %arg1, %[[V4]], dims = [0] {known_nonexpanding_dimensions = array<i64: 0>} : (tensor<?xf64>, tensor<2xi32>) -> tensor<?x3xf64>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.multiply %[[V0]], %[[V0]] : tensor<?x3xf64>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.dynamic_broadcast_in_dim %[[CST]], %[[V4]], dims = [] : (tensor<f64>, tensor<2xi32>) -> tensor<?x3xf64>
// VJP-NEXT:    %[[V8:.*]] = stablehlo.subtract %[[V7]], %[[V6]] : tensor<?x3xf64>
// VJP-NEXT:    %[[V9:.*]] = stablehlo.multiply %[[V8]], %[[V5]] : tensor<?x3xf64>
// VJP-NEXT:    return %[[V1]], %[[V9]] : tensor<?xf64>, tensor<?x3xf64>

func.func @main(%x: tensor<?x3xf64>) -> tensor<?xf64> {
  %0 = stablehlo.constant dense<0.0> : tensor<f64>
  %1 = stablehlo.tanh %x : tensor<?x3xf64>
  %2 = stablehlo.reduce(%1 init: %0) applies stablehlo.add across dimensions = [1] : (tensor<?x3xf64>, tensor<f64>) -> tensor<?xf64>
  return %2 : tensor<?xf64>
}
