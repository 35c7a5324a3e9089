// RUN: tiduc opt %s --pass-pipeline='tidu-lower' | filecheck %s

// The module keeps the function that a composite names.

// CHECK-LABEL: func.func @main
// CHECK:         stablehlo.composite "my.op" %arg0 {decomposition = @sine}
"tidu.graph"() ({
^bb0(%x: tensor<4xf32>):
  %0 = stablehlo.composite "my.op" %x {decomposition = @sine} : (tensor<4xf32>) -> tensor<4xf32>
  stablehlo.return %0 : tensor<4xf32>
}) {inputs = [@x], sym_name = "main"} : () -> ()

// CHECK:       func.func private @sine
func.func private @sine(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.sine %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
