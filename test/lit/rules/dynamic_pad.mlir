// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[C:.*]] = stablehlo.constant dense<0> : tensor<1xi32>
// JVP-NEXT:    %[[V0:.*]] = stablehlo.dynamic_pad %arg0, %arg1, %arg2, %[[C]], %[[C]] : (tensor<?xf64>, tensor<f64>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.dynamic_pad %arg3, %arg4, %arg2, %[[C]], %[[C]] : (tensor<?xf64>, tensor<f64>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf64>
// JVP-NEXT:    return %[[V0]], %[[V1]] : tensor<?xf64>, tensor<?xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[C:.*]] = stablehlo.constant dense<true> : tensor<i1>
// VJP-NEXT:    %[[C_0:.*]] = stablehlo.constant dense<false> : tensor<i1>
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[C_1:.*]] = stablehlo.constant dense<-1> : tensor<i32>
// VJP-NEXT:    %[[C_2:.*]] = stablehlo.constant dense<1> : tensor<1xi32>
// VJP-NEXT:    %[[C_3:.*]] = stablehlo.constant dense<0> : tensor<1xi32>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.dynamic_pad %arg0, %arg1, %arg2, %[[C_3]], %[[C_3]] : (tensor<?xf64>, tensor<f64>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.get_dimension_size %arg0, dim = 0 : (tensor<?xf64>) -> tensor<i32>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.reshape %[[V1]] : (tensor<i32>) -> tensor<1xi32>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.reshape %arg2 : (tensor<1xi32>) -> tensor<i32>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.multiply %[[V3]], %[[C_1]] : tensor<i32>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.reshape %[[V4]] : (tensor<i32>) -> tensor<1xi32>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.dynamic_pad %arg3, %[[CST]], %[[V5]], %[[C_3]], %[[C_3]] : (tensor<?xf64>, tensor<f64>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf64>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.real_dynamic_slice %[[V6]], %[[C_3]], %[[V2]], %[[C_2]] : (tensor<?xf64>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf64>
// VJP-NEXT:    %[[V8:.*]] = stablehlo.add %[[V1]], %[[V3]] : tensor<i32>
// VJP-NEXT:    %[[V9:.*]] = stablehlo.reshape %[[V8]] : (tensor<i32>) -> tensor<1xi32>
// VJP-NEXT:    %[[V10:.*]] = stablehlo.dynamic_broadcast_in_dim %[[CST]], %[[V9]], dims = [] : (tensor<f64>, tensor<1xi32>) -> tensor<?xf64>
// VJP-NEXT:    %[[V11:.*]] = stablehlo.dynamic_broadcast_in_dim %[[C]], %[[V2]], dims = [] : (tensor<i1>, tensor<1xi32>) -> tensor<?xi1>
// VJP-NEXT:    %[[V12:.*]] = stablehlo.dynamic_pad %[[V11]], %[[C_0]], %arg2, %[[C_3]], %[[C_3]] : (tensor<?xi1>, tensor<i1>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xi1>
// VJP-NEXT:    %[[V13:.*]] = stablehlo.select %[[V12]], %[[V10]], %arg3 : tensor<?xi1>, tensor<?xf64>
// VJP-NEXT:    %[[V14:.*]] = stablehlo.reduce(%[[V13]] init: %[[CST]]) applies stablehlo.add across dimensions = [0] : (tensor<?xf64>, tensor<f64>) -> tensor<f64>
// VJP-NEXT:    return %[[V0]], %[[V7]], %[[V14]] : tensor<?xf64>, tensor<?xf64>, tensor<f64>

func.func @main(%x: tensor<?xf64>, %v: tensor<f64>, %low: tensor<1xi32>) -> tensor<?xf64> {
  %0 = stablehlo.constant dense<0> : tensor<1xi32>
  %1 = stablehlo.dynamic_pad %x, %v, %low, %0, %0 : (tensor<?xf64>, tensor<f64>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf64>
  return %1 : tensor<?xf64>
}
