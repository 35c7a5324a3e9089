// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// The mean of the tangents of the elements that attain the maximum.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<2xf64>
// JVP-NEXT:    %[[C:.*]] = stablehlo.constant dense<0> : tensor<i32>
// JVP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<2x4xf64>
// JVP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// JVP-NEXT:    %[[CST_2:.*]] = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>
// JVP-NEXT:    %[[V0:.*]] = stablehlo.reduce(%arg0 init: %[[CST_2]]) applies stablehlo.maximum across dimensions = [1] : (tensor<2x4xf64>, tensor<f64>) -> tensor<2xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.broadcast_in_dim %[[V0]], dims = [0] : (tensor<2xf64>) -> tensor<2x4xf64>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.compare EQ, %arg0, %[[V1]] : (tensor<2x4xf64>, tensor<2x4xf64>) -> tensor<2x4xi1>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.select %[[V2]], %arg1, %[[CST_0]] : tensor<2x4xi1>, tensor<2x4xf64>
// JVP-NEXT:    %[[V4:.*]] = stablehlo.reduce(%[[V3]] init: %[[CST_1]]) applies stablehlo.add across dimensions = [1] : (tensor<2x4xf64>, tensor<f64>) -> tensor<2xf64>
// JVP-NEXT:    %[[V5:.*]] = stablehlo.convert %[[V2]] : (tensor<2x4xi1>) -> tensor<2x4xi32>
// JVP-NEXT:    %[[V6:.*]] = stablehlo.reduce(%[[V5]] init: %[[C]]) applies stablehlo.add across dimensions = [1] : (tensor<2x4xi32>, tensor<i32>) -> tensor<2xi32>
// JVP-NEXT:    %[[V7:.*]] = stablehlo.convert %[[V6]] : (tensor<2xi32>) -> tensor<2xf64>
// JVP-NEXT:    %[[V8:.*]] = stablehlo.divide %[[CST]], %[[V7]] : tensor<2xf64>
// JVP-NEXT:    %[[V9:.*]] = stablehlo.multiply %[[V8]], %[[V4]] : tensor<2xf64>
// JVP-NEXT:    return %[[V0]], %[[V9]] : tensor<2xf64>, tensor<2xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<2xf64>
// VJP-NEXT:    %[[C:.*]] = stablehlo.constant dense<0> : tensor<i32>
// VJP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<2x4xf64>
// VJP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.reduce(%arg0 init: %[[CST_1]]) applies stablehlo.maximum across dimensions = [1] : (tensor<2x4xf64>, tensor<f64>) -> tensor<2xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.broadcast_in_dim %[[V0]], dims = [0] : (tensor<2xf64>) -> tensor<2x4xf64>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.compare EQ, %arg0, %[[V1]] : (tensor<2x4xf64>, tensor<2x4xf64>) -> tensor<2x4xi1>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.convert %[[V2]] : (tensor<2x4xi1>) -> tensor<2x4xi32>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.reduce(%[[V3]] init: %[[C]]) applies stablehlo.add across dimensions = [1] : (tensor<2x4xi32>, tensor<i32>) -> tensor<2xi32>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.convert %[[V4]] : (tensor<2xi32>) -> tensor<2xf64>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.divide %[[CST]], %[[V5]] : tensor<2xf64>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.multiply %[[V6]], %arg1 : tensor<2xf64>
// VJP-NEXT:    %[[V8:.*]] = stablehlo.broadcast_in_dim %[[V7]], dims = [0] : (tensor<2xf64>) -> tensor<2x4xf64>
// VJP-NEXT:    %[[V9:.*]] = stablehlo.select %[[V2]], %[[V8]], %[[CST_0]] : tensor<2x4xi1>, tensor<2x4xf64>
// VJP-NEXT:    return %[[V0]], %[[V9]] : tensor<2xf64>, tensor<2x4xf64>

func.func @main(%x: tensor<2x4xf64>) -> tensor<2xf64> {
  %init = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>
  %0 = stablehlo.reduce(%x init: %init) applies stablehlo.maximum across dimensions = [1] : (tensor<2x4xf64>, tensor<f64>) -> tensor<2xf64>
  return %0 : tensor<2xf64>
}
