// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// Elements that are cut off get zeros, which are appended to the cotangent.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = stablehlo.set_dimension_size %arg0, %arg1, dim = 0 : (tensor<4xf64>, tensor<i32>) -> tensor<?xf64, #stablehlo.bounds<4>>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.set_dimension_size %arg2, %arg1, dim = 0 : (tensor<4xf64>, tensor<i32>) -> tensor<?xf64, #stablehlo.bounds<4>>
// JVP-NEXT:    return %[[V0]], %[[V1]] : tensor<?xf64, #stablehlo.bounds<4>>, tensor<?xf64, #stablehlo.bounds<4>>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<4xf64>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.set_dimension_size %arg0, %arg1, dim = 0 : (tensor<4xf64>, tensor<i32>) -> tensor<?xf64, #stablehlo.bounds<4>>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.concatenate %arg2, %[[CST]], dim = 0 : (tensor<?xf64, #stablehlo.bounds<4>>, tensor<4xf64>) -> tensor<?xf64>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.slice %[[V1]] [0:4] : (tensor<?xf64>) -> tensor<4xf64>
// VJP-NEXT:    return %[[V0]], %[[V2]] : tensor<?xf64, #stablehlo.bounds<4>>, tensor<4xf64>

func.func @main(%x: tensor<4xf64>, %n: tensor<i32>) -> tensor<?xf64, #stablehlo.bounds<4>> {
  %0 = stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<4xf64>, tensor<i32>) -> tensor<?xf64, #stablehlo.bounds<4>>
  return %0 : tensor<?xf64, #stablehlo.bounds<4>>
}
