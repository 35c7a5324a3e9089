// RUN: tiduc opt %s --pass-pipeline='tidu-infer-active' | filecheck %s

// CHECK:      stablehlo.multiply %{{.*}}, %{{.*}} {tidu.active = array<i1: false, true>}
// CHECK:      stablehlo.cosine %{{.*}} : tensor<f64>
// CHECK:      stablehlo.multiply %{{.*}}, %{{.*}} {tidu.active = array<i1: false, true>}
"tidu.graph"() ({
^bb0(%x: tensor<f64>):
  stablehlo.return %x : tensor<f64>
}) {sym_name = "F0", inputs = [@x]} : () -> ()
"tidu.graph"() ({
^bb0(%dx: tensor<f64>):
  %x = "tidu.external"() {ref = @F0::@x} : () -> tensor<f64>
  %0 = stablehlo.multiply %x, %dx : tensor<f64>
  %1 = stablehlo.cosine %x : tensor<f64>
  %2 = stablehlo.multiply %1, %0 {tidu.active = array<i1: false, true>} : tensor<f64>
  stablehlo.return %2 : tensor<f64>
}) {sym_name = "L0", inputs = [@dx], tidu.active_outputs = array<i1: true>, tidu.input_of = [@F0::@x], tidu.output_of = [@F0::@x]} : () -> ()
