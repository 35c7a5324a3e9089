// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// The asymptotic series, and where |x| < 20 a continued fraction; y / x is 1 / 2 at 0.

// JVP-LABEL: func.func @main
// JVP:         %[[Y:.*]] = chlo.bessel_i1e %arg0
// JVP-NEXT:    %[[A:.*]] = stablehlo.abs %arg0
// JVP-NEXT:    %[[NEAR:.*]] = stablehlo.compare LT, %[[A]], %{{.*}}
// JVP-COUNT-27: stablehlo.multiply
// JVP:         stablehlo.rsqrt
// JVP-COUNT-31: stablehlo.divide
// JVP:         %[[ZERO:.*]] = stablehlo.compare EQ, %arg0, %{{.*}}
// JVP-NEXT:    %[[X:.*]] = stablehlo.select %[[ZERO]], %{{.*}}, %arg0
// JVP-NEXT:    %[[Q:.*]] = stablehlo.divide %[[Y]], %[[X]]
// JVP-NEXT:    %[[R:.*]] = stablehlo.select %[[ZERO]], %{{.*}}, %[[Q]]
// JVP-NEXT:    %[[F:.*]] = stablehlo.multiply %[[R]], %{{.*}}
// JVP-NEXT:    %[[D:.*]] = stablehlo.select %[[NEAR]], %[[F]], %{{.*}}
// JVP-NEXT:    %[[DY:.*]] = stablehlo.multiply %[[D]], %arg1
// JVP-NEXT:    return %[[Y]], %[[DY]]

// VJP-LABEL: func.func @main
// VJP:         %[[Y:.*]] = chlo.bessel_i1e %arg0
// VJP:         %[[CX:.*]] = stablehlo.multiply %{{.*}}, %arg1
// VJP-NEXT:    return %[[Y]], %[[CX]]

func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {
  %0 = chlo.bessel_i1e %x : tensor<3xf64> -> tensor<3xf64>
  return %0 : tensor<3xf64>
}
