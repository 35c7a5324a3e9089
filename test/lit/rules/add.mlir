// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// The transpose gives the cotangent to both operands.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = stablehlo.add %arg0, %arg1
// JVP-NEXT:    %[[V1:.*]] = stablehlo.add %arg2, %arg3
// JVP-NEXT:    return %[[V0]], %[[V1]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[V0:.*]] = stablehlo.add %arg0, %arg1
// VJP-NEXT:    return %[[V0]], %arg2, %arg2

func.func @main(%x: tensor<3xf64>, %y: tensor<3xf64>) -> tensor<3xf64> {
  %0 = stablehlo.add %x, %y : tensor<3xf64>
  return %0 : tensor<3xf64>
}
