// RUN: tiduc jvp %s --entry forward | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s --entry reverse | filecheck %s --check-prefix=VJP
// RUN: not tiduc jvp %s --entry reverse 2>&1 | filecheck %s --check-prefix=REFUSED

// Functions with a custom derivative, which replaces the derivative of their ops.

// JVP-LABEL: func.func @forward
// JVP-NEXT:    %[[Y:.*]] = call @step(%arg0)
// JVP-NEXT:    %[[DY:.*]] = call @[[LINEAR:.*]](%arg1)
// JVP-NEXT:    return %[[Y]], %[[DY]]
// JVP:       func.func private @[[LINEAR]](%arg0
// JVP:         stablehlo.negate %arg0
// JVP:       func.func private @step{{.*}} attributes {tidu.jvp = @step_jvp}
// JVP:       func.func private @step_jvp

// VJP-LABEL: func.func @reverse
// VJP-NEXT:    %[[Y:.*]] = call @kink(%arg0)
// VJP-NEXT:    %[[CX:.*]] = call @kink_vjp(%arg0, %arg1)
// VJP-NEXT:    return %[[Y]], %[[CX]]
// VJP:       func.func private @kink_vjp
// VJP:       func.func private @kink{{.*}} attributes {tidu.vjp = @kink_vjp}

// REFUSED: own_derivatives.mlir:30:8: error: unsupported jvp AD rule for func.call: the function defines its derivative as the VJP @kink_vjp

func.func @forward(%x: tensor<3xf64>) -> tensor<3xf64> {
  %0 = call @step(%x) : (tensor<3xf64>) -> tensor<3xf64>
  return %0 : tensor<3xf64>
}
func.func @reverse(%x: tensor<3xf64>) -> tensor<3xf64> {
  %0 = call @kink(%x) : (tensor<3xf64>) -> tensor<3xf64>
  return %0 : tensor<3xf64>
}
func.func private @step(%x: tensor<3xf64>) -> tensor<3xf64> attributes {tidu.jvp = @step_jvp} {
  %0 = stablehlo.sign %x : tensor<3xf64>
  return %0 : tensor<3xf64>
}
func.func private @step_jvp(%x: tensor<3xf64>, %dx: tensor<3xf64>) -> (tensor<3xf64>, tensor<3xf64>) {
  %0 = call @step(%x) : (tensor<3xf64>) -> tensor<3xf64>
  %1 = stablehlo.negate %dx : tensor<3xf64>
  return %0, %1 : tensor<3xf64>, tensor<3xf64>
}
func.func private @kink(%x: tensor<3xf64>) -> tensor<3xf64> attributes {tidu.vjp = @kink_vjp} {
  %0 = stablehlo.abs %x : tensor<3xf64>
  return %0 : tensor<3xf64>
}
func.func private @kink_vjp(%x: tensor<3xf64>, %ct: tensor<3xf64>) -> tensor<3xf64> {
  %0 = stablehlo.cosine %x : tensor<3xf64>
  %1 = stablehlo.multiply %0, %ct : tensor<3xf64>
  return %1 : tensor<3xf64>
}
