// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// The transpose of a cumulative sum is a cumulative sum from the other end, as a window op with padding.

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[V0:.*]] = "stablehlo.reduce_window"(%arg0, %[[CST]]) <{padding = dense<[[2, 0]]> : tensor<1x2xi64>, window_dimensions = array<i64: 3>}> ({
// VJP-NEXT:    ^bb0(%arg2: tensor<f64>, %arg3: tensor<f64>):
// VJP-NEXT:    %[[V2:.*]] = stablehlo.add %arg2, %arg3 : tensor<f64>
// VJP-NEXT:    stablehlo.return %[[V2]] : tensor<f64>
// VJP-NEXT:    }) : (tensor<3xf64>, tensor<f64>) -> tensor<3xf64>
// VJP-NEXT:    %[[V1:.*]] = "stablehlo.reduce_window"(%arg1, %[[CST]]) <{base_dilations = array<i64: 1>, padding = dense<[[0, 2]]> : tensor<1x2xi64>, window_dilations = array<i64: 1>, window_dimensions = array<i64: 3>, window_strides = array<i64: 1>}> ({
// VJP-NEXT:    ^bb0(%arg2: tensor<f64>, %arg3: tensor<f64>):
// VJP-NEXT:    %[[V2]] = stablehlo.add %arg2, %arg3 : tensor<f64>
// VJP-NEXT:    stablehlo.return %[[V2]] : tensor<f64>
// VJP-NEXT:    }) : (tensor<3xf64>, tensor<f64>) -> tensor<3xf64>
// VJP-NEXT:    return %[[V0]], %[[V1]] : tensor<3xf64>, tensor<3xf64>

func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {
  %init = stablehlo.constant dense<0.0> : tensor<f64>
  %0 = "stablehlo.reduce_window"(%x, %init) <{window_dimensions = array<i64: 3>, padding = dense<[[2, 0]]> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %1 = stablehlo.add %a, %b : tensor<f64>
    stablehlo.return %1 : tensor<f64>
  }) : (tensor<3xf64>, tensor<f64>) -> tensor<3xf64>
  return %0 : tensor<3xf64>
}
