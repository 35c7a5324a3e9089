// RUN: tiduc jvp %s --wrt source | filecheck %s
// RUN: tiduc vjp %s --wrt source | filecheck %s
// RUN: tiduc -q check %s --wrt source --engine reference

// With a scatter region other than a sum: a scatter to the indices of the selected elements.

// CHECK-LABEL: func.func @main
// CHECK:         %[[INIT:.*]] = stablehlo.constant dense<0xFFF0000000000000> : tensor<4xf64>
// CHECK:         %[[NUMBERS:.*]] = stablehlo.iota dim = 0 : tensor<4xi32>
// CHECK:         %[[SELECTED:.*]]:2 = "stablehlo.reduce_window"(%arg0, %[[NUMBERS]]
// CHECK:         %[[AT:.*]] = stablehlo.reshape %[[SELECTED]]#1 : (tensor<2xi32>) -> tensor<2x1xi32>
// CHECK:         "stablehlo.scatter"(%[[INIT]], %[[AT]], %arg1)
// CHECK:         stablehlo.maximum
// CHECK:         return

func.func @main(%x: tensor<4xf64>, %source: tensor<2xf64> {tidu.name = "source"}) -> tensor<4xf64> {
  %init = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>
  %0 = "stablehlo.select_and_scatter"(%x, %source, %init) <{window_dimensions = array<i64: 2>, window_strides = array<i64: 2>}> ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %1 = stablehlo.compare GE, %a, %b : (tensor<f64>, tensor<f64>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }, {
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %1 = stablehlo.maximum %a, %b : tensor<f64>
    stablehlo.return %1 : tensor<f64>
  }) : (tensor<4xf64>, tensor<2xf64>, tensor<f64>) -> tensor<4xf64>
  return %0 : tensor<4xf64>
}
