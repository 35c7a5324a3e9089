// RUN: not tiduc jvp %s --entry bits 2>&1 | filecheck %s --check-prefix=BITS
// RUN: not tiduc vjp %s --entry order --wrt 0 2>&1 | filecheck %s --check-prefix=ORDER
// RUN: tiduc vjp %s --entry order --wrt 1 | filecheck %s --check-prefix=REST

// A refusal names the op, its location and the reason, and occurs only where a tangent arrives.

// BITS: refused.mlir:12:8: error: unsupported jvp AD rule for stablehlo.bitcast_convert: it reinterprets the bits of a float
// ORDER: refused.mlir:18:8: error: unsupported jvp AD rule for chlo.polygamma: it has no derivative in its order, which is an integer
// REST: func.func @order

func.func @bits(%x: tensor<f64>) -> tensor<f64> {
  %0 = stablehlo.bitcast_convert %x : (tensor<f64>) -> tensor<2xf32>
  %1 = stablehlo.bitcast_convert %0 : (tensor<2xf32>) -> tensor<f64>
  return %1 : tensor<f64>
}

func.func @order(%n: tensor<f64>, %x: tensor<f64>) -> tensor<f64> {
  %0 = chlo.polygamma %n, %x : tensor<f64>, tensor<f64> -> tensor<f64>
  return %0 : tensor<f64>
}
