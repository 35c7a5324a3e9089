// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// Tangents are broadcast, then follow the rule of stablehlo.atan2; cotangents are summed.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<8.3798799562141231E+152> : tensor<3xf64>
// JVP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<7.4583407312002067E-155> : tensor<3xf64>
// JVP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<1.1933345169920331E-153> : tensor<3xf64>
// JVP-NEXT:    %[[CST_2:.*]] = stablehlo.constant dense<1.3407807929942597E+154> : tensor<3xf64>
// JVP-NEXT:    %[[CST_3:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[V0:.*]] = chlo.broadcast_atan2 %arg0, %arg1
// JVP-NEXT:    %[[V1:.*]] = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<f64>) -> tensor<3xf64>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.abs %[[V1]]
// JVP-NEXT:    %[[V3:.*]] = stablehlo.abs %arg1
// JVP-NEXT:    %[[V4:.*]] = stablehlo.add %[[V3]], %[[V2]]
// JVP-NEXT:    %[[V5:.*]] = stablehlo.compare LT, %[[V4]], %[[CST_1]]
// JVP-NEXT:    %[[V6:.*]] = stablehlo.select %[[V5]], %[[CST_2]], %[[CST_3]]
// JVP-NEXT:    %[[V7:.*]] = stablehlo.compare GT, %[[V4]], %[[CST]]
// JVP-NEXT:    %[[V8:.*]] = stablehlo.select %[[V7]], %[[CST_0]], %[[V6]]
// JVP-NEXT:    %[[V9:.*]] = stablehlo.multiply %[[V1]], %[[V8]]
// JVP-NEXT:    %[[V10:.*]] = stablehlo.multiply %[[V9]], %[[V9]]
// JVP-NEXT:    %[[V11:.*]] = stablehlo.multiply %arg1, %[[V8]]
// JVP-NEXT:    %[[V12:.*]] = stablehlo.multiply %[[V11]], %[[V11]]
// JVP-NEXT:    %[[V13:.*]] = stablehlo.add %[[V12]], %[[V10]]
// JVP-NEXT:    %[[V14:.*]] = stablehlo.divide %[[V9]], %[[V13]]
// JVP-NEXT:    %[[V15:.*]] = stablehlo.multiply %[[V8]], %[[V14]]
// JVP-NEXT:    %[[V16:.*]] = stablehlo.negate %[[V15]]
// JVP-NEXT:    %[[V17:.*]] = stablehlo.multiply %[[V16]], %arg3
// JVP-NEXT:    %[[V18:.*]] = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f64>) -> tensor<3xf64>
// JVP-NEXT:    %[[V19:.*]] = stablehlo.divide %[[V11]], %[[V13]]
// JVP-NEXT:    %[[V20:.*]] = stablehlo.multiply %[[V8]], %[[V19]]
// JVP-NEXT:    %[[V21:.*]] = stablehlo.multiply %[[V20]], %[[V18]]
// JVP-NEXT:    %[[V22:.*]] = stablehlo.add %[[V21]], %[[V17]]
// JVP-NEXT:    return %[[V0]], %[[V22]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<8.3798799562141231E+152> : tensor<3xf64>
// VJP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<7.4583407312002067E-155> : tensor<3xf64>
// VJP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<1.1933345169920331E-153> : tensor<3xf64>
// VJP-NEXT:    %[[CST_2:.*]] = stablehlo.constant dense<1.3407807929942597E+154> : tensor<3xf64>
// VJP-NEXT:    %[[CST_3:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[CST_4:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[V0:.*]] = chlo.broadcast_atan2 %arg0, %arg1
// VJP-NEXT:    %[[V1:.*]] = stablehlo.abs %arg1
// VJP-NEXT:    %[[V2:.*]] = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<f64>) -> tensor<3xf64>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.abs %[[V2]]
// VJP-NEXT:    %[[V4:.*]] = stablehlo.add %[[V3]], %[[V1]]
// VJP-NEXT:    %[[V5:.*]] = stablehlo.compare LT, %[[V4]], %[[CST_1]]
// VJP-NEXT:    %[[V6:.*]] = stablehlo.select %[[V5]], %[[CST_2]], %[[CST_3]]
// VJP-NEXT:    %[[V7:.*]] = stablehlo.compare GT, %[[V4]], %[[CST]]
// VJP-NEXT:    %[[V8:.*]] = stablehlo.select %[[V7]], %[[CST_0]], %[[V6]]
// VJP-NEXT:    %[[V9:.*]] = stablehlo.multiply %arg1, %[[V8]]
// VJP-NEXT:    %[[V10:.*]] = stablehlo.multiply %[[V9]], %[[V9]]
// VJP-NEXT:    %[[V11:.*]] = stablehlo.multiply %[[V2]], %[[V8]]
// VJP-NEXT:    %[[V12:.*]] = stablehlo.multiply %[[V11]], %[[V11]]
// VJP-NEXT:    %[[V13:.*]] = stablehlo.add %[[V12]], %[[V10]]
// VJP-NEXT:    %[[V14:.*]] = stablehlo.divide %[[V9]], %[[V13]]
// VJP-NEXT:    %[[V15:.*]] = stablehlo.multiply %[[V8]], %[[V14]]
// VJP-NEXT:    %[[V16:.*]] = stablehlo.multiply %[[V15]], %arg2
// VJP-NEXT:    %[[V17:.*]] = stablehlo.reduce(%[[V16]] init: %[[CST_4]]) applies stablehlo.add across dimensions = [0]
// VJP-NEXT:    %[[V18:.*]] = stablehlo.divide %[[V11]], %[[V13]]
// VJP-NEXT:    %[[V19:.*]] = stablehlo.multiply %[[V8]], %[[V18]]
// VJP-NEXT:    %[[V20:.*]] = stablehlo.negate %[[V19]]
// VJP-NEXT:    %[[V21:.*]] = stablehlo.multiply %[[V20]], %arg2
// VJP-NEXT:    return %[[V0]], %[[V17]], %[[V21]]

func.func @main(%x: tensor<f64>, %y: tensor<3xf64>) -> tensor<3xf64> {
  %0 = chlo.broadcast_atan2 %x, %y : (tensor<f64>, tensor<3xf64>) -> tensor<3xf64>
  return %0 : tensor<3xf64>
}
