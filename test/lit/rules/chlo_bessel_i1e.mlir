// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// The asymptotic series, a continued fraction for |x| < 20, or the Taylor series for |x| < 1/2; 1 / 2 at 0.

// JVP-LABEL: func.func @main
// JVP:         %[[Y:.*]] = chlo.bessel_i1e %arg0
// JVP-NEXT:    %[[ZERO:.*]] = stablehlo.compare EQ, %arg0, %{{.*}}
// JVP-NEXT:    %[[X:.*]] = stablehlo.select %[[ZERO]], %{{.*}}, %arg0
// JVP-NEXT:    %[[A:.*]] = stablehlo.abs %[[X]]
// JVP-NEXT:    %[[NEAR:.*]] = stablehlo.compare LT, %[[A]], %{{.*}}
// JVP-COUNT-27: stablehlo.multiply
// JVP:         stablehlo.rsqrt
// JVP-COUNT-31: stablehlo.divide
// JVP:         %[[R:.*]] = stablehlo.divide %[[Y]], %[[X]]
// JVP-NEXT:    %[[F:.*]] = stablehlo.multiply %[[R]], %{{.*}}
// JVP-NEXT:    %[[S:.*]] = stablehlo.select %[[NEAR]], %[[F]], %{{.*}}
// JVP-NEXT:    %[[SMALL:.*]] = stablehlo.compare LT, %[[A]], %{{.*}}
// JVP-COUNT-19: stablehlo.multiply
// JVP:         %[[T:.*]] = stablehlo.select %[[SMALL]], %{{.*}}, %[[S]]
// JVP-NEXT:    %[[D:.*]] = stablehlo.select %[[ZERO]], %{{.*}}, %[[T]]
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
