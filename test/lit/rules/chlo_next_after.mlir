// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// The derivative is 1 toward the first operand, and 0 toward the second.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = chlo.next_after %arg0, %arg1 : tensor<3xf32>, tensor<3xf32> -> tensor<3xf32>
// JVP-NEXT:    return %[[V0]], %arg2 : tensor<3xf32>, tensor<3xf32>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3xf32>
// VJP-NEXT:    %[[V0:.*]] = chlo.next_after %arg0, %arg1 : tensor<3xf32>, tensor<3xf32> -> tensor<3xf32>
// VJP-NEXT:    return %[[V0]], %arg2, %[[CST]] : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>

func.func @main(%x: tensor<3xf32>, %y: tensor<3xf32>) -> tensor<3xf32> {
  %0 = chlo.next_after %x, %y : tensor<3xf32>, tensor<3xf32> -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
