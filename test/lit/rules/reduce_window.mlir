// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// A sum is linear. The transpose is a sum over the adjoint window, with the stride as dilation.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// JVP-NEXT:    %[[V0:.*]] = "stablehlo.reduce_window"(%arg0, %[[CST]]) <{padding = dense<{{\[\[}}1, 0{{\]\]}}> : tensor<1x2xi64>, window_dimensions = array<i64: 3>, window_strides = array<i64: 2>}> ({
// JVP-NEXT:    ^bb0(%arg2: tensor<f64>, %arg3: tensor<f64>):
// JVP-NEXT:    %[[V2:.*]] = stablehlo.add %arg2, %arg3 : tensor<f64>
// JVP-NEXT:    stablehlo.return %[[V2]] : tensor<f64>
// JVP-NEXT:    }) : (tensor<7xf64>, tensor<f64>) -> tensor<3xf64>
// JVP-NEXT:    %[[V1:.*]] = "stablehlo.reduce_window"(%arg1, %[[CST]]) <{base_dilations = array<i64: 1>, padding = dense<{{\[\[}}1, 0{{\]\]}}> : tensor<1x2xi64>, window_dilations = array<i64: 1>, window_dimensions = array<i64: 3>, window_strides = array<i64: 2>}> ({
// JVP-NEXT:    ^bb0(%arg2: tensor<f64>, %arg3: tensor<f64>):
// JVP-NEXT:    %[[V2]] = stablehlo.add %arg2, %arg3 : tensor<f64>
// JVP-NEXT:    stablehlo.return %[[V2]] : tensor<f64>
// JVP-NEXT:    }) : (tensor<7xf64>, tensor<f64>) -> tensor<3xf64>
// JVP-NEXT:    return %[[V0]], %[[V1]] : tensor<3xf64>, tensor<3xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[V0:.*]] = "stablehlo.reduce_window"(%arg0, %[[CST]]) <{padding = dense<{{\[\[}}1, 0{{\]\]}}> : tensor<1x2xi64>, window_dimensions = array<i64: 3>, window_strides = array<i64: 2>}> ({
// VJP-NEXT:    ^bb0(%arg2: tensor<f64>, %arg3: tensor<f64>):
// VJP-NEXT:    %[[V3:.*]] = stablehlo.add %arg2, %arg3 : tensor<f64>
// VJP-NEXT:    stablehlo.return %[[V3]] : tensor<f64>
// VJP-NEXT:    }) : (tensor<7xf64>, tensor<f64>) -> tensor<3xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.pad %arg1, %[[CST]], low = [1], high = [3], interior = [1] : (tensor<3xf64>, tensor<f64>) -> tensor<9xf64>
// VJP-NEXT:    %[[V2:.*]] = "stablehlo.reduce_window"(%[[V1]], %[[CST]]) <{base_dilations = array<i64: 1>, padding = dense<0> : tensor<1x2xi64>, window_dilations = array<i64: 1>, window_dimensions = array<i64: 3>, window_strides = array<i64: 1>}> ({
// VJP-NEXT:    ^bb0(%arg2: tensor<f64>, %arg3: tensor<f64>):
// VJP-NEXT:    %[[V3]] = stablehlo.add %arg2, %arg3 : tensor<f64>
// VJP-NEXT:    stablehlo.return %[[V3]] : tensor<f64>
// VJP-NEXT:    }) : (tensor<9xf64>, tensor<f64>) -> tensor<7xf64>
// VJP-NEXT:    return %[[V0]], %[[V2]] : tensor<3xf64>, tensor<7xf64>

func.func @main(%x: tensor<7xf64>) -> tensor<3xf64> {
  %init = stablehlo.constant dense<0.0> : tensor<f64>
  %0 = "stablehlo.reduce_window"(%x, %init) <{window_dimensions = array<i64: 3>, window_strides = array<i64: 2>, padding = dense<[[1, 0]]> : tensor<1x2xi64>}> ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %1 = stablehlo.add %a, %b : tensor<f64>
    stablehlo.return %1 : tensor<f64>
  }) : (tensor<7xf64>, tensor<f64>) -> tensor<3xf64>
  return %0 : tensor<3xf64>
}
