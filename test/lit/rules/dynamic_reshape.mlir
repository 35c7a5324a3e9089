// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = stablehlo.dynamic_reshape %arg0, %arg1 : (tensor<?x2xf64>, tensor<1xi32>) -> tensor<?xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.dynamic_reshape %arg2, %arg1 : (tensor<?x2xf64>, tensor<1xi32>) -> tensor<?xf64>
// JVP-NEXT:    return %[[V0]], %[[V1]] : tensor<?xf64>, tensor<?xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[C:.*]] = stablehlo.constant dense<2> : tensor<1xi32>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.dynamic_reshape %arg0, %arg1 : (tensor<?x2xf64>, tensor<1xi32>) -> tensor<?xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.get_dimension_size %arg0, dim = 0 : (tensor<?x2xf64>) -> tensor<i32>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.reshape %[[V1]] : (tensor<i32>) -> tensor<1xi32>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.concatenate %[[V2]], %[[C]], dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.dynamic_reshape %arg2, %[[V3]] : (tensor<?xf64>, tensor<2xi32>) -> tensor<?x2xf64>
// VJP-NEXT:    return %[[V0]], %[[V4]] : tensor<?xf64>, tensor<?x2xf64>

func.func @main(%x: tensor<?x2xf64>, %n: tensor<1xi32>) -> tensor<?xf64> {
  %0 = stablehlo.dynamic_reshape %x, %n : (tensor<?x2xf64>, tensor<1xi32>) -> tensor<?xf64>
  return %0 : tensor<?xf64>
}
