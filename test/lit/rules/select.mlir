// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// The op is linear. The transpose gives the cotangent to the chosen operand, and zero to the other.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = stablehlo.select %arg0, %arg1, %arg2
// JVP-NEXT:    %[[V1:.*]] = stablehlo.select %arg0, %arg3, %arg4
// JVP-NEXT:    return %[[V0]], %[[V1]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.select %arg0, %arg1, %arg2
// VJP-NEXT:    %[[V1:.*]] = stablehlo.select %arg0, %arg3, %[[C0]]
// VJP-NEXT:    %[[V2:.*]] = stablehlo.select %arg0, %[[C0]], %arg3
// VJP-NEXT:    return %[[V0]], %[[V1]], %[[V2]]

func.func @main(%p: tensor<i1>, %x: tensor<3xf64>, %y: tensor<3xf64>) -> tensor<3xf64> {
  %0 = stablehlo.select %p, %x, %y : tensor<i1>, tensor<3xf64>
  return %0 : tensor<3xf64>
}
