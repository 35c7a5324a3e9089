// RUN: tiduc jvp %s --wrt 1 | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s --wrt 1 | filecheck %s --check-prefix=VJP
// RUN: tiduc jvp %s --wrt 0 | filecheck %s --check-prefix=EXPONENT
// RUN: tiduc -q check %s --wrt 1 --input 2,3,4 --input 0.5,1,2 --engine reference

// The derivative toward q is -s zeta(s + 1, q); toward s, ten terms of the sum, and the rest by Euler-Maclaurin.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[V0:.*]] = chlo.zeta %arg0, %arg1
// JVP-NEXT:    %[[V1:.*]] = stablehlo.add %arg0, %[[C0]]
// JVP-NEXT:    %[[V2:.*]] = chlo.zeta %[[V1]], %arg1
// JVP-NEXT:    %[[V3:.*]] = stablehlo.multiply %arg0, %[[V2]]
// JVP-NEXT:    %[[V4:.*]] = stablehlo.negate %[[V3]]
// JVP-NEXT:    %[[V5:.*]] = stablehlo.multiply %[[V4]], %arg2
// JVP-NEXT:    return %[[V0]], %[[V5]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[V0:.*]] = chlo.zeta %arg0, %arg1
// VJP-NEXT:    %[[V1:.*]] = stablehlo.add %arg0, %[[C0]]
// VJP-NEXT:    %[[V2:.*]] = chlo.zeta %[[V1]], %arg1
// VJP-NEXT:    %[[V3:.*]] = stablehlo.multiply %arg0, %[[V2]]
// VJP-NEXT:    %[[V4:.*]] = stablehlo.negate %[[V3]]
// VJP-NEXT:    %[[V5:.*]] = stablehlo.multiply %[[V4]], %arg2
// VJP-NEXT:    return %[[V0]], %[[V5]]

// EXPONENT-LABEL: func.func @main
// EXPONENT-COUNT-10: stablehlo.log
// EXPONENT-NOT:  chlo.zeta %{{.*}}, %arg1

func.func @main(%s: tensor<3xf64>, %q: tensor<3xf64>) -> tensor<3xf64> {
  %0 = chlo.zeta %s, %q : tensor<3xf64>, tensor<3xf64> -> tensor<3xf64>
  return %0 : tensor<3xf64>
}
