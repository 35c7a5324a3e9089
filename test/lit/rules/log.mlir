// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// dy = dx / x, which is finite even if 1 / x overflows.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = stablehlo.log %arg0
// JVP-NEXT:    %[[V1:.*]] = stablehlo.divide %arg1, %arg0
// JVP-NEXT:    return %[[V0]], %[[V1]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[V0:.*]] = stablehlo.log %arg0
// VJP-NEXT:    %[[V1:.*]] = stablehlo.divide %arg1, %arg0
// VJP-NEXT:    return %[[V0]], %[[V1]]

func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {
  %0 = stablehlo.log %x : tensor<3xf64>
  return %0 : tensor<3xf64>
}
