// RUN: tiduc jvp %s --wrt 1 | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s --wrt 1 | filecheck %s --check-prefix=VJP
// RUN: tiduc jvp %s --wrt 0 | filecheck %s --check-prefix=EXPONENT
// RUN: tiduc -q check %s --wrt 1 --input 2,3,4 --input 0.5,1,2 --engine reference

// The derivative toward q is -s zeta(s + 1, q), or -(s - 1) zeta(s, q) (1 / q + 1 / (2 q^2)) for large q; toward s, ten terms of the sum, and the rest by Euler-Maclaurin.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0x41A0000000000000> : tensor<3xf64>
// JVP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<5.000000e-01> : tensor<3xf64>
// JVP-NEXT:    %[[CST_2:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[V0:.*]] = chlo.zeta %arg0, %arg1
// JVP-NEXT:    %[[V1:.*]] = stablehlo.add %arg0, %[[CST_2]]
// JVP-NEXT:    %[[V2:.*]] = chlo.zeta %[[V1]], %arg1
// JVP-NEXT:    %[[V3:.*]] = stablehlo.multiply %arg0, %[[V2]]
// JVP-NEXT:    %[[V4:.*]] = stablehlo.negate %[[V3]]
// JVP-NEXT:    %[[V5:.*]] = stablehlo.divide %[[CST_1]], %arg1
// JVP-NEXT:    %[[V6:.*]] = stablehlo.add %[[V5]], %[[CST_2]]
// JVP-NEXT:    %[[V7:.*]] = stablehlo.divide %[[V6]], %arg1
// JVP-NEXT:    %[[V8:.*]] = stablehlo.subtract %[[CST_2]], %arg0
// JVP-NEXT:    %[[V9:.*]] = stablehlo.multiply %[[V8]], %[[V0]]
// JVP-NEXT:    %[[V10:.*]] = stablehlo.multiply %[[V9]], %[[V7]]
// JVP-NEXT:    %[[V11:.*]] = stablehlo.compare GT, %arg0, %[[CST_2]]
// JVP-NEXT:    %[[V12:.*]] = stablehlo.multiply %[[V1]], %[[CST]]
// JVP-NEXT:    %[[V13:.*]] = stablehlo.compare GT, %arg1, %[[V12]]
// JVP-NEXT:    %[[V14:.*]] = stablehlo.and %[[V13]], %[[V11]]
// JVP-NEXT:    %[[V15:.*]] = stablehlo.select %[[V14]], %[[V10]], %[[V4]]
// JVP-NEXT:    %[[V16:.*]] = stablehlo.multiply %[[V15]], %arg2
// JVP-NEXT:    return %[[V0]], %[[V16]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0x41A0000000000000> : tensor<3xf64>
// VJP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<5.000000e-01> : tensor<3xf64>
// VJP-NEXT:    %[[CST_2:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[V0:.*]] = chlo.zeta %arg0, %arg1
// VJP-NEXT:    %[[V1:.*]] = stablehlo.add %arg0, %[[CST_2]]
// VJP-NEXT:    %[[V2:.*]] = chlo.zeta %[[V1]], %arg1
// VJP-NEXT:    %[[V3:.*]] = stablehlo.multiply %arg0, %[[V2]]
// VJP-NEXT:    %[[V4:.*]] = stablehlo.negate %[[V3]]
// VJP-NEXT:    %[[V5:.*]] = stablehlo.divide %[[CST_1]], %arg1
// VJP-NEXT:    %[[V6:.*]] = stablehlo.add %[[V5]], %[[CST_2]]
// VJP-NEXT:    %[[V7:.*]] = stablehlo.divide %[[V6]], %arg1
// VJP-NEXT:    %[[V8:.*]] = stablehlo.subtract %[[CST_2]], %arg0
// VJP-NEXT:    %[[V9:.*]] = stablehlo.multiply %[[V8]], %[[V0]]
// VJP-NEXT:    %[[V10:.*]] = stablehlo.multiply %[[V9]], %[[V7]]
// VJP-NEXT:    %[[V11:.*]] = stablehlo.compare GT, %arg0, %[[CST_2]]
// VJP-NEXT:    %[[V12:.*]] = stablehlo.multiply %[[V1]], %[[CST]]
// VJP-NEXT:    %[[V13:.*]] = stablehlo.compare GT, %arg1, %[[V12]]
// VJP-NEXT:    %[[V14:.*]] = stablehlo.and %[[V13]], %[[V11]]
// VJP-NEXT:    %[[V15:.*]] = stablehlo.select %[[V14]], %[[V10]], %[[V4]]
// VJP-NEXT:    %[[V16:.*]] = stablehlo.multiply %[[V15]], %arg2
// VJP-NEXT:    return %[[V0]], %[[V16]]

// EXPONENT-LABEL: func.func @main
// EXPONENT-COUNT-10: stablehlo.log
// EXPONENT-NOT:  chlo.zeta %{{.*}}, %arg1

func.func @main(%s: tensor<3xf64>, %q: tensor<3xf64>) -> tensor<3xf64> {
  %0 = chlo.zeta %s, %q : tensor<3xf64>, tensor<3xf64> -> tensor<3xf64>
  return %0 : tensor<3xf64>
}
