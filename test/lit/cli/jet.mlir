// RUN: tiduc jet %s --wrt x --order 2 | filecheck %s --check-prefix=JET
// RUN: tiduc jet %s --wrt x --order 3 | tiduc run - --input 2 --input 0 --input 1,0,0 | filecheck %s --check-prefix=SERIES
// RUN: tiduc jet %s --wrt x --order 3 --derivatives | tiduc run - --input 2 --input 0 | filecheck %s --check-prefix=DERIVATIVES
// RUN: not tiduc jet %s --order 3 --derivatives 2>&1 | filecheck %s --check-prefix=SCALAR
// RUN: not tiduc jet %s --wrt x --order 0 2>&1 | filecheck %s --check-prefix=ORDER

// JET:      func.func @main(%arg0: tensor<f64> {tidu.name = "a"}, %arg1: tensor<f64> {tidu.name = "x"}, %arg2: tensor<2xf64> {tidu.name = "x.series"})
// JET-SAME:   -> (tensor<f64>, tensor<2xf64> {tidu.name = "result0.series"})
// JET:        stablehlo.exponential
// JET-NOT:    stablehlo.exponential

// SERIES:      result0: f64=1.0
// SERIES-NEXT: result0.series: 3xf64=2.0,2.0,1.333333
// DERIVATIVES:      result0: f64=1.0
// DERIVATIVES-NEXT: result0.derivative1: f64=2.0
// DERIVATIVES-NEXT: result0.derivative2: f64=4.0
// DERIVATIVES-NEXT: result0.derivative3: f64={{8.0|7.99999}}

// SCALAR: jet.mlir: error: derivatives needs one scalar input; there are a: tensor<f64>, x: tensor<f64>: choose one with wrt, or use jet
// ORDER:  Invalid value for '--order'
func.func @main(%a: tensor<f64> {tidu.name = "a"}, %x: tensor<f64> {tidu.name = "x"}) -> tensor<f64> {
  %0 = stablehlo.multiply %a, %x : tensor<f64>
  %1 = stablehlo.exponential %0 : tensor<f64>
  return %1 : tensor<f64>
}
