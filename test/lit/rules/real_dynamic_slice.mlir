// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[C:.*]] = stablehlo.constant dense<1> : tensor<1xi32>
// JVP-NEXT:    %[[V0:.*]] = stablehlo.real_dynamic_slice %arg0, %arg1, %arg2, %[[C]] : (tensor<?xf64>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.real_dynamic_slice %arg3, %arg1, %arg2, %[[C]] : (tensor<?xf64>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf64>
// JVP-NEXT:    return %[[V0]], %[[V1]] : tensor<?xf64>, tensor<?xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[C:.*]] = stablehlo.constant dense<-1> : tensor<i32>
// VJP-NEXT:    %[[C_0:.*]] = stablehlo.constant dense<0> : tensor<i32>
// VJP-NEXT:    %[[C_1:.*]] = stablehlo.constant dense<0> : tensor<1xi32>
// VJP-NEXT:    %[[C_2:.*]] = stablehlo.constant dense<1> : tensor<1xi32>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.real_dynamic_slice %arg0, %arg1, %arg2, %[[C_2]] : (tensor<?xf64>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.reshape %arg2 : (tensor<1xi32>) -> tensor<i32>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.reshape %arg1 : (tensor<1xi32>) -> tensor<i32>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.multiply %[[V2]], %[[C]] : tensor<i32>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.add %[[V3]], %[[V1]] : tensor<i32>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.maximum %[[V4]], %[[C_0]] : tensor<i32>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.get_dimension_size %arg0, dim = 0 : (tensor<?xf64>) -> tensor<i32>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.subtract %[[V6]], %[[V2]] : tensor<i32>
// VJP-NEXT:    %[[V8:.*]] = stablehlo.subtract %[[V7]], %[[V5]] : tensor<i32>
// VJP-NEXT:    %[[V9:.*]] = stablehlo.reshape %[[V8]] : (tensor<i32>) -> tensor<1xi32>
// VJP-NEXT:    %[[V10:.*]] = stablehlo.dynamic_pad %arg3, %[[CST]], %arg1, %[[V9]], %[[C_1]] : (tensor<?xf64>, tensor<f64>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf64>
// VJP-NEXT:    return %[[V0]], %[[V10]] : tensor<?xf64>, tensor<?xf64>

func.func @main(%x: tensor<?xf64>, %start: tensor<1xi32>, %limit: tensor<1xi32>) -> tensor<?xf64> {
  %0 = stablehlo.constant dense<1> : tensor<1xi32>
  %1 = stablehlo.real_dynamic_slice %x, %start, %limit, %0 : (tensor<?xf64>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf64>
  return %1 : tensor<?xf64>
}
