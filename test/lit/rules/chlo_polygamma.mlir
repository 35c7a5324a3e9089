// RUN: tiduc jvp %s --wrt 1 | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s --wrt 1 | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --wrt 1 --input 0,1,2 --input 0.5,1,2 --engine reference

// d/dx polygamma(n, x) = polygamma(n + 1, x), or -n (1 / x + 1 / (2 x^2)) polygamma(n, x) for large x; there is no derivative toward n.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0x41A0000000000000> : tensor<3xf64>
// JVP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<5.000000e-01> : tensor<3xf64>
// JVP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[CST_2:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[V0:.*]] = chlo.polygamma %arg0, %arg1
// JVP-NEXT:    %[[V1:.*]] = stablehlo.add %arg0, %[[CST_2]]
// JVP-NEXT:    %[[V2:.*]] = chlo.polygamma %[[V1]], %arg1
// JVP-NEXT:    %[[V3:.*]] = stablehlo.multiply %arg0, %[[V0]]
// JVP-NEXT:    %[[V4:.*]] = stablehlo.negate %[[V3]]
// JVP-NEXT:    %[[V5:.*]] = stablehlo.compare EQ, %arg0, %[[CST_1]]
// JVP-NEXT:    %[[V6:.*]] = stablehlo.select %[[V5]], %[[CST_2]], %[[V4]]
// JVP-NEXT:    %[[V7:.*]] = stablehlo.divide %[[CST_0]], %arg1
// JVP-NEXT:    %[[V8:.*]] = stablehlo.add %[[V7]], %[[CST_2]]
// JVP-NEXT:    %[[V9:.*]] = stablehlo.divide %[[V8]], %arg1
// JVP-NEXT:    %[[V10:.*]] = stablehlo.multiply %[[V9]], %[[V6]]
// JVP-NEXT:    %[[V11:.*]] = stablehlo.multiply %[[V1]], %[[CST]]
// JVP-NEXT:    %[[V12:.*]] = stablehlo.compare GT, %arg1, %[[V11]]
// JVP-NEXT:    %[[V13:.*]] = stablehlo.select %[[V12]], %[[V10]], %[[V2]]
// JVP-NEXT:    %[[V14:.*]] = stablehlo.multiply %[[V13]], %arg2
// JVP-NEXT:    return %[[V0]], %[[V14]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0x41A0000000000000> : tensor<3xf64>
// VJP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<5.000000e-01> : tensor<3xf64>
// VJP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[CST_2:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[V0:.*]] = chlo.polygamma %arg0, %arg1
// VJP-NEXT:    %[[V1:.*]] = stablehlo.add %arg0, %[[CST_2]]
// VJP-NEXT:    %[[V2:.*]] = chlo.polygamma %[[V1]], %arg1
// VJP-NEXT:    %[[V3:.*]] = stablehlo.multiply %arg0, %[[V0]]
// VJP-NEXT:    %[[V4:.*]] = stablehlo.negate %[[V3]]
// VJP-NEXT:    %[[V5:.*]] = stablehlo.compare EQ, %arg0, %[[CST_1]]
// VJP-NEXT:    %[[V6:.*]] = stablehlo.select %[[V5]], %[[CST_2]], %[[V4]]
// VJP-NEXT:    %[[V7:.*]] = stablehlo.divide %[[CST_0]], %arg1
// VJP-NEXT:    %[[V8:.*]] = stablehlo.add %[[V7]], %[[CST_2]]
// VJP-NEXT:    %[[V9:.*]] = stablehlo.divide %[[V8]], %arg1
// VJP-NEXT:    %[[V10:.*]] = stablehlo.multiply %[[V9]], %[[V6]]
// VJP-NEXT:    %[[V11:.*]] = stablehlo.multiply %[[V1]], %[[CST]]
// VJP-NEXT:    %[[V12:.*]] = stablehlo.compare GT, %arg1, %[[V11]]
// VJP-NEXT:    %[[V13:.*]] = stablehlo.select %[[V12]], %[[V10]], %[[V2]]
// VJP-NEXT:    %[[V14:.*]] = stablehlo.multiply %[[V13]], %arg2
// VJP-NEXT:    return %[[V0]], %[[V14]]

func.func @main(%n: tensor<3xf64>, %x: tensor<3xf64>) -> tensor<3xf64> {
  %0 = chlo.polygamma %n, %x : tensor<3xf64>, tensor<3xf64> -> tensor<3xf64>
  return %0 : tensor<3xf64>
}
