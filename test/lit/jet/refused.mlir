// RUN: not tiduc opt %s --pass-pipeline='tidu-import,tidu-jet' 2>&1 | filecheck %s --check-prefix=MISSING
// RUN: not tiduc opt %s --pass-pipeline='tidu-import,tidu-jet{order=0}' 2>&1 | filecheck %s --check-prefix=ORDER
// RUN: not tiduc opt %s --pass-pipeline='tidu-import,tidu-jet{order=2 wrt=n}' 2>&1 | filecheck %s --check-prefix=WRT
// RUN: not tiduc opt %s --pass-pipeline='tidu-import,tidu-jet{order=2}' 2>&1 | filecheck %s --check-prefix=RULE
// RUN: not tiduc opt %s --pass-pipeline='tidu-import,tidu-jet{order=2 graph=vjp_only}' 2>&1 | filecheck %s --check-prefix=VJP

// MISSING: error: tidu-jet needs the order of the coefficients
// ORDER:   error: order must be an integer from 1 to 100, not 0
// WRT:     error: @n has no tangent: its type is tensor<i32>
// RULE:    refused.mlir:13:8: error: unsupported jvp AD rule for stablehlo.custom_call: unknown call target: unknown
// VJP:     refused.mlir:17:8: error: unsupported jvp AD rule for func.call: the function defines its derivative as the VJP @g
func.func @main(%x: tensor<f64> {tidu.name = "x"}, %n: tensor<i32> {tidu.name = "n"}) -> tensor<f64> {
  %0 = stablehlo.custom_call @unknown(%x) : (tensor<f64>) -> tensor<f64>
  return %0 : tensor<f64>
}
func.func @vjp_only(%x: tensor<f64>) -> tensor<f64> {
  %0 = call @f(%x) : (tensor<f64>) -> tensor<f64>
  return %0 : tensor<f64>
}
func.func private @f(%x: tensor<f64>) -> tensor<f64> attributes {tidu.vjp = @g} {
  %0 = stablehlo.sine %x : tensor<f64>
  return %0 : tensor<f64>
}
func.func private @g(%x: tensor<f64>, %ct: tensor<f64>) -> tensor<f64> {
  return %ct : tensor<f64>
}
