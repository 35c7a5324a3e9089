// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// The transpose is a dynamic_update_slice, which clamps the start likewise.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = stablehlo.dynamic_slice %arg0, %arg1, %arg2, sizes = [2, 3] : (tensor<4x5xf64>, tensor<i32>, tensor<i32>) -> tensor<2x3xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.dynamic_slice %arg3, %arg1, %arg2, sizes = [2, 3] : (tensor<4x5xf64>, tensor<i32>, tensor<i32>) -> tensor<2x3xf64>
// JVP-NEXT:    return %[[V0]], %[[V1]] : tensor<2x3xf64>, tensor<2x3xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<4x5xf64>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.dynamic_slice %arg0, %arg1, %arg2, sizes = [2, 3] : (tensor<4x5xf64>, tensor<i32>, tensor<i32>) -> tensor<2x3xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.dynamic_update_slice %[[CST]], %arg3, %arg1, %arg2 : (tensor<4x5xf64>, tensor<2x3xf64>, tensor<i32>, tensor<i32>) -> tensor<4x5xf64>
// VJP-NEXT:    return %[[V0]], %[[V1]] : tensor<2x3xf64>, tensor<4x5xf64>

func.func @main(%x: tensor<4x5xf64>, %i: tensor<i32>, %j: tensor<i32>) -> tensor<2x3xf64> {
  %0 = stablehlo.dynamic_slice %x, %i, %j, sizes = [2, 3] : (tensor<4x5xf64>, tensor<i32>, tensor<i32>) -> tensor<2x3xf64>
  return %0 : tensor<2x3xf64>
}
