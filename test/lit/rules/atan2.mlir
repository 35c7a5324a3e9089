// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// dz = (y dx - x dy) / (x^2 + y^2), with x and y scaled by a power of two if squares overflow or underflow.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<8.3798799562141231E+152> : tensor<3xf64>
// JVP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<7.4583407312002067E-155> : tensor<3xf64>
// JVP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<1.1933345169920331E-153> : tensor<3xf64>
// JVP-NEXT:    %[[CST_2:.*]] = stablehlo.constant dense<1.3407807929942597E+154> : tensor<3xf64>
// JVP-NEXT:    %[[CST_3:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[V0:.*]] = stablehlo.atan2 %arg0, %arg1
// JVP-NEXT:    %[[V1:.*]] = stablehlo.abs %arg0
// JVP-NEXT:    %[[V2:.*]] = stablehlo.abs %arg1
// JVP-NEXT:    %[[V3:.*]] = stablehlo.add %[[V2]], %[[V1]]
// JVP-NEXT:    %[[V4:.*]] = stablehlo.compare LT, %[[V3]], %[[CST_1]]
// JVP-NEXT:    %[[V5:.*]] = stablehlo.select %[[V4]], %[[CST_2]], %[[CST_3]]
// JVP-NEXT:    %[[V6:.*]] = stablehlo.compare GT, %[[V3]], %[[CST]]
// JVP-NEXT:    %[[V7:.*]] = stablehlo.select %[[V6]], %[[CST_0]], %[[V5]]
// JVP-NEXT:    %[[V8:.*]] = stablehlo.multiply %arg0, %[[V7]]
// JVP-NEXT:    %[[V9:.*]] = stablehlo.multiply %[[V8]], %[[V8]]
// JVP-NEXT:    %[[V10:.*]] = stablehlo.multiply %arg1, %[[V7]]
// JVP-NEXT:    %[[V11:.*]] = stablehlo.multiply %[[V10]], %[[V10]]
// JVP-NEXT:    %[[V12:.*]] = stablehlo.add %[[V11]], %[[V9]]
// JVP-NEXT:    %[[V13:.*]] = stablehlo.divide %[[V8]], %[[V12]]
// JVP-NEXT:    %[[V14:.*]] = stablehlo.multiply %[[V7]], %[[V13]]
// JVP-NEXT:    %[[V15:.*]] = stablehlo.negate %[[V14]]
// JVP-NEXT:    %[[V16:.*]] = stablehlo.multiply %[[V15]], %arg3
// JVP-NEXT:    %[[V17:.*]] = stablehlo.divide %[[V10]], %[[V12]]
// JVP-NEXT:    %[[V18:.*]] = stablehlo.multiply %[[V7]], %[[V17]]
// JVP-NEXT:    %[[V19:.*]] = stablehlo.multiply %[[V18]], %arg2
// JVP-NEXT:    %[[V20:.*]] = stablehlo.add %[[V19]], %[[V16]]
// JVP-NEXT:    return %[[V0]], %[[V20]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<8.3798799562141231E+152> : tensor<3xf64>
// VJP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<7.4583407312002067E-155> : tensor<3xf64>
// VJP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<1.1933345169920331E-153> : tensor<3xf64>
// VJP-NEXT:    %[[CST_2:.*]] = stablehlo.constant dense<1.3407807929942597E+154> : tensor<3xf64>
// VJP-NEXT:    %[[CST_3:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.atan2 %arg0, %arg1
// VJP-NEXT:    %[[V1:.*]] = stablehlo.abs %arg1
// VJP-NEXT:    %[[V2:.*]] = stablehlo.abs %arg0
// VJP-NEXT:    %[[V3:.*]] = stablehlo.add %[[V2]], %[[V1]]
// VJP-NEXT:    %[[V4:.*]] = stablehlo.compare LT, %[[V3]], %[[CST_1]]
// VJP-NEXT:    %[[V5:.*]] = stablehlo.select %[[V4]], %[[CST_2]], %[[CST_3]]
// VJP-NEXT:    %[[V6:.*]] = stablehlo.compare GT, %[[V3]], %[[CST]]
// VJP-NEXT:    %[[V7:.*]] = stablehlo.select %[[V6]], %[[CST_0]], %[[V5]]
// VJP-NEXT:    %[[V8:.*]] = stablehlo.multiply %arg1, %[[V7]]
// VJP-NEXT:    %[[V9:.*]] = stablehlo.multiply %[[V8]], %[[V8]]
// VJP-NEXT:    %[[V10:.*]] = stablehlo.multiply %arg0, %[[V7]]
// VJP-NEXT:    %[[V11:.*]] = stablehlo.multiply %[[V10]], %[[V10]]
// VJP-NEXT:    %[[V12:.*]] = stablehlo.add %[[V11]], %[[V9]]
// VJP-NEXT:    %[[V13:.*]] = stablehlo.divide %[[V8]], %[[V12]]
// VJP-NEXT:    %[[V14:.*]] = stablehlo.multiply %[[V7]], %[[V13]]
// VJP-NEXT:    %[[V15:.*]] = stablehlo.multiply %[[V14]], %arg2
// VJP-NEXT:    %[[V16:.*]] = stablehlo.divide %[[V10]], %[[V12]]
// VJP-NEXT:    %[[V17:.*]] = stablehlo.multiply %[[V7]], %[[V16]]
// VJP-NEXT:    %[[V18:.*]] = stablehlo.negate %[[V17]]
// VJP-NEXT:    %[[V19:.*]] = stablehlo.multiply %[[V18]], %arg2
// VJP-NEXT:    return %[[V0]], %[[V15]], %[[V19]]

func.func @main(%x: tensor<3xf64>, %y: tensor<3xf64>) -> tensor<3xf64> {
  %0 = stablehlo.atan2 %x, %y : tensor<3xf64>
  return %0 : tensor<3xf64>
}
