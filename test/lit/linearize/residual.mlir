// RUN: tiduc opt %s --pass-pipeline='tidu-import,tidu-linearize' | filecheck %s

// The cosine reads only primal values: the linear graph contains it, but it is not a linear op.

// CHECK:      stablehlo.return
// CHECK:        %[[X:.*]] = "tidu.external"() {ref = @main::@x}
// CHECK-NEXT:   %[[C:.*]] = stablehlo.cosine %[[X]] : tensor<f64>
// CHECK-NEXT:   stablehlo.multiply %[[C]], %{{.*}} {tidu.active = array<i1: false, true>}
func.func @main(%x: tensor<f64>) -> tensor<f64> {
  %0 = stablehlo.sine %x : tensor<f64>
  return %0 : tensor<f64>
}
