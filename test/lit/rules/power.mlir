// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --input 0.5,1,2 --input 1.5,2,3 --engine reference

// dz = y x^(y - 1) dx + log(x) x^y dy; for y >= 0, x = 0 is replaced by 1 if a factor would be NaN.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[C1:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[V0:.*]] = stablehlo.power %arg0, %arg1
// JVP-NEXT:    %[[V1:.*]] = stablehlo.compare GE, %arg1, %[[C0]] : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.compare EQ, %arg0, %[[C0]] : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.and %[[V2]], %[[V1]]
// JVP-NEXT:    %[[V4:.*]] = stablehlo.select %[[V3]], %[[C1]], %arg0
// JVP-NEXT:    %[[V5:.*]] = stablehlo.log %[[V4]]
// JVP-NEXT:    %[[V6:.*]] = stablehlo.multiply %[[V5]], %[[V0]]
// JVP-NEXT:    %[[V7:.*]] = stablehlo.multiply %[[V6]], %arg3
// JVP-NEXT:    %[[V8:.*]] = stablehlo.subtract %arg1, %[[C1]]
// JVP-NEXT:    %[[V9:.*]] = stablehlo.compare EQ, %arg1, %[[C0]] : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// JVP-NEXT:    %[[V10:.*]] = stablehlo.and %[[V2]], %[[V9]]
// JVP-NEXT:    %[[V11:.*]] = stablehlo.select %[[V10]], %[[C1]], %arg0
// JVP-NEXT:    %[[V12:.*]] = stablehlo.power %[[V11]], %[[V8]]
// JVP-NEXT:    %[[V13:.*]] = stablehlo.multiply %arg1, %[[V12]]
// JVP-NEXT:    %[[V14:.*]] = stablehlo.multiply %[[V13]], %arg2
// JVP-NEXT:    %[[V15:.*]] = stablehlo.add %[[V14]], %[[V7]]
// JVP-NEXT:    return %[[V0]], %[[V15]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[C1:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.power %arg0, %arg1
// VJP-NEXT:    %[[V1:.*]] = stablehlo.subtract %arg1, %[[C1]]
// VJP-NEXT:    %[[V2:.*]] = stablehlo.compare EQ, %arg1, %[[C0]] : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.compare EQ, %arg0, %[[C0]] : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.and %[[V3]], %[[V2]]
// VJP-NEXT:    %[[V5:.*]] = stablehlo.select %[[V4]], %[[C1]], %arg0
// VJP-NEXT:    %[[V6:.*]] = stablehlo.power %[[V5]], %[[V1]]
// VJP-NEXT:    %[[V7:.*]] = stablehlo.multiply %arg1, %[[V6]]
// VJP-NEXT:    %[[V8:.*]] = stablehlo.multiply %[[V7]], %arg2
// VJP-NEXT:    %[[V9:.*]] = stablehlo.compare GE, %arg1, %[[C0]] : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// VJP-NEXT:    %[[V10:.*]] = stablehlo.and %[[V3]], %[[V9]]
// VJP-NEXT:    %[[V11:.*]] = stablehlo.select %[[V10]], %[[C1]], %arg0
// VJP-NEXT:    %[[V12:.*]] = stablehlo.log %[[V11]]
// VJP-NEXT:    %[[V13:.*]] = stablehlo.multiply %[[V12]], %[[V0]]
// VJP-NEXT:    %[[V14:.*]] = stablehlo.multiply %[[V13]], %arg2
// VJP-NEXT:    return %[[V0]], %[[V8]], %[[V14]]

func.func @main(%x: tensor<3xf64>, %y: tensor<3xf64>) -> tensor<3xf64> {
  %0 = stablehlo.power %x, %y : tensor<3xf64>
  return %0 : tensor<3xf64>
}
