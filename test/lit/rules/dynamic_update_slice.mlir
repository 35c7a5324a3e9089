// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// The transpose gives the update its slice of the cotangent, and the operand zeros there.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = stablehlo.dynamic_update_slice %arg0, %arg1, %arg2 : (tensor<5xf64>, tensor<2xf64>, tensor<i32>) -> tensor<5xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.dynamic_update_slice %arg3, %arg4, %arg2 : (tensor<5xf64>, tensor<2xf64>, tensor<i32>) -> tensor<5xf64>
// JVP-NEXT:    return %[[V0]], %[[V1]] : tensor<5xf64>, tensor<5xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<2xf64>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.dynamic_update_slice %arg0, %arg1, %arg2 : (tensor<5xf64>, tensor<2xf64>, tensor<i32>) -> tensor<5xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.dynamic_update_slice %arg3, %[[CST]], %arg2 : (tensor<5xf64>, tensor<2xf64>, tensor<i32>) -> tensor<5xf64>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.dynamic_slice %arg3, %arg2, sizes = [2] : (tensor<5xf64>, tensor<i32>) -> tensor<2xf64>
// VJP-NEXT:    return %[[V0]], %[[V1]], %[[V2]] : tensor<5xf64>, tensor<5xf64>, tensor<2xf64>

func.func @main(%x: tensor<5xf64>, %u: tensor<2xf64>, %i: tensor<i32>) -> tensor<5xf64> {
  %0 = stablehlo.dynamic_update_slice %x, %u, %i : (tensor<5xf64>, tensor<2xf64>, tensor<i32>) -> tensor<5xf64>
  return %0 : tensor<5xf64>
}
