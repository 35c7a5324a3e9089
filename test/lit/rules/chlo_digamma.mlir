// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference
// RUN: tiduc -q check %s --engine reference --input -0.4,-11.7,-25.3

// y' = polygamma(1, x), by reflection for negative x; 1 / x + 1 / (2 x^2) for large x.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0x41A0000000000000> : tensor<3xf64>
// JVP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<5.000000e-01> : tensor<3xf64>
// JVP-NEXT:    %[[CST_2:.*]] = stablehlo.constant dense<3.1415926535897931> : tensor<3xf64>
// JVP-NEXT:    %[[CST_3:.*]] = stablehlo.constant dense<9.869604401089358> : tensor<3xf64>
// JVP-NEXT:    %[[CST_4:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[CST_5:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[CST_6:.*]] = stablehlo.constant dense<-5.000000e-01> : tensor<3xf64>
// JVP-NEXT:    %[[V0:.*]] = chlo.digamma %arg0
// JVP-NEXT:    %[[V1:.*]] = stablehlo.compare LT, %arg0, %[[CST_5]]
// JVP-NEXT:    %[[V2:.*]] = stablehlo.select %[[V1]], %arg0, %[[CST_6]]
// JVP-NEXT:    %[[V3:.*]] = stablehlo.subtract %[[CST_4]], %[[V2]]
// JVP-NEXT:    %[[V4:.*]] = stablehlo.select %[[V1]], %[[V3]], %arg0
// JVP-NEXT:    %[[V5:.*]] = chlo.polygamma %[[CST_4]], %[[V4]]
// JVP-NEXT:    %[[V6:.*]] = stablehlo.round_nearest_even %[[V2]]
// JVP-NEXT:    %[[V7:.*]] = stablehlo.subtract %[[V2]], %[[V6]]
// JVP-NEXT:    %[[V8:.*]] = stablehlo.multiply %[[V7]], %[[CST_2]]
// JVP-NEXT:    %[[V9:.*]] = stablehlo.sine %[[V8]]
// JVP-NEXT:    %[[V10:.*]] = stablehlo.cosine %[[V8]]
// JVP-NEXT:    %[[V11:.*]] = stablehlo.divide %[[V10]], %[[V9]]
// JVP-NEXT:    %[[V12:.*]] = stablehlo.multiply %[[V11]], %[[V11]]
// JVP-NEXT:    %[[V13:.*]] = stablehlo.multiply %[[V12]], %[[CST_3]]
// JVP-NEXT:    %[[V14:.*]] = stablehlo.add %[[V13]], %[[CST_3]]
// JVP-NEXT:    %[[V15:.*]] = stablehlo.subtract %[[V14]], %[[V5]]
// JVP-NEXT:    %[[V16:.*]] = stablehlo.select %[[V1]], %[[V15]], %[[V5]]
// JVP-NEXT:    %[[V17:.*]] = stablehlo.divide %[[CST_1]], %arg0
// JVP-NEXT:    %[[V18:.*]] = stablehlo.add %[[V17]], %[[CST_4]]
// JVP-NEXT:    %[[V19:.*]] = stablehlo.divide %[[V18]], %arg0
// JVP-NEXT:    %[[V20:.*]] = stablehlo.compare GT, %arg0, %[[CST]]
// JVP-NEXT:    %[[V21:.*]] = stablehlo.select %[[V20]], %[[V19]], %[[V16]]
// JVP-NEXT:    %[[V22:.*]] = stablehlo.multiply %[[V21]], %arg1
// JVP-NEXT:    return %[[V0]], %[[V22]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0x41A0000000000000> : tensor<3xf64>
// VJP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<5.000000e-01> : tensor<3xf64>
// VJP-NEXT:    %[[CST_2:.*]] = stablehlo.constant dense<3.1415926535897931> : tensor<3xf64>
// VJP-NEXT:    %[[CST_3:.*]] = stablehlo.constant dense<9.869604401089358> : tensor<3xf64>
// VJP-NEXT:    %[[CST_4:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[CST_5:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[CST_6:.*]] = stablehlo.constant dense<-5.000000e-01> : tensor<3xf64>
// VJP-NEXT:    %[[V0:.*]] = chlo.digamma %arg0
// VJP-NEXT:    %[[V1:.*]] = stablehlo.compare LT, %arg0, %[[CST_5]]
// VJP-NEXT:    %[[V2:.*]] = stablehlo.select %[[V1]], %arg0, %[[CST_6]]
// VJP-NEXT:    %[[V3:.*]] = stablehlo.subtract %[[CST_4]], %[[V2]]
// VJP-NEXT:    %[[V4:.*]] = stablehlo.select %[[V1]], %[[V3]], %arg0
// VJP-NEXT:    %[[V5:.*]] = chlo.polygamma %[[CST_4]], %[[V4]]
// VJP-NEXT:    %[[V6:.*]] = stablehlo.round_nearest_even %[[V2]]
// VJP-NEXT:    %[[V7:.*]] = stablehlo.subtract %[[V2]], %[[V6]]
// VJP-NEXT:    %[[V8:.*]] = stablehlo.multiply %[[V7]], %[[CST_2]]
// VJP-NEXT:    %[[V9:.*]] = stablehlo.sine %[[V8]]
// VJP-NEXT:    %[[V10:.*]] = stablehlo.cosine %[[V8]]
// VJP-NEXT:    %[[V11:.*]] = stablehlo.divide %[[V10]], %[[V9]]
// VJP-NEXT:    %[[V12:.*]] = stablehlo.multiply %[[V11]], %[[V11]]
// VJP-NEXT:    %[[V13:.*]] = stablehlo.multiply %[[V12]], %[[CST_3]]
// VJP-NEXT:    %[[V14:.*]] = stablehlo.add %[[V13]], %[[CST_3]]
// VJP-NEXT:    %[[V15:.*]] = stablehlo.subtract %[[V14]], %[[V5]]
// VJP-NEXT:    %[[V16:.*]] = stablehlo.select %[[V1]], %[[V15]], %[[V5]]
// VJP-NEXT:    %[[V17:.*]] = stablehlo.divide %[[CST_1]], %arg0
// VJP-NEXT:    %[[V18:.*]] = stablehlo.add %[[V17]], %[[CST_4]]
// VJP-NEXT:    %[[V19:.*]] = stablehlo.divide %[[V18]], %arg0
// VJP-NEXT:    %[[V20:.*]] = stablehlo.compare GT, %arg0, %[[CST]]
// VJP-NEXT:    %[[V21:.*]] = stablehlo.select %[[V20]], %[[V19]], %[[V16]]
// VJP-NEXT:    %[[V22:.*]] = stablehlo.multiply %[[V21]], %arg1
// VJP-NEXT:    return %[[V0]], %[[V22]]

func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {
  %0 = chlo.digamma %x : tensor<3xf64> -> tensor<3xf64>
  return %0 : tensor<3xf64>
}
