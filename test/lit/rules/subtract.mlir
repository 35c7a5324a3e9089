// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// The transpose gives the cotangent, and its negative.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = stablehlo.subtract %arg0, %arg1
// JVP-NEXT:    %[[V1:.*]] = stablehlo.subtract %arg2, %arg3
// JVP-NEXT:    return %[[V0]], %[[V1]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[V0:.*]] = stablehlo.subtract %arg0, %arg1
// VJP-NEXT:    %[[V1:.*]] = stablehlo.negate %arg2
// VJP-NEXT:    return %[[V0]], %arg2, %[[V1]]

func.func @main(%x: tensor<3xf64>, %y: tensor<3xf64>) -> tensor<3xf64> {
  %0 = stablehlo.subtract %x, %y : tensor<3xf64>
  return %0 : tensor<3xf64>
}
