// RUN: not tiduc check %s --engine reference --input 0 --seed 1 | filecheck %s

// At a kink, a central difference is the mean of two slopes, but the derivative is one slope. `check` reports this.

// CHECK:      DISAGREES  tangent of result0, against central differences: relative error 1.0e+00 along x (tolerance
// CHECK:      DISAGREES  cotangent of x, against central differences: relative error 1.0e+00 from result0 (tolerance
// CHECK:      2 of 3 comparisons disagree
func.func @main(%x: tensor<f64>) -> tensor<f64> {
  %0 = stablehlo.constant dense<0.0> : tensor<f64>
  %1 = stablehlo.compare GE, %x, %0 : (tensor<f64>, tensor<f64>) -> tensor<i1>
  %2 = stablehlo.select %1, %x, %0 : tensor<i1>, tensor<f64>
  return %2 : tensor<f64>
}
