// RUN: tiduc opt %s --pass-pipeline=tidu-resolve | filecheck %s

// References may go through any number of graphs, in any order. Resolving copies nothing, and changes nothing.

// CHECK:       "tidu.external"() {ref = @F1::@e}
// CHECK:       "tidu.external"() {ref = @F0::@p}
// CHECK:       stablehlo.sine
"tidu.graph"() ({
^bb0(%x: tensor<f64>):
  %0 = "tidu.external"() {ref = @F1::@e} : () -> tensor<f64>
  %1 = stablehlo.add %0, %x : tensor<f64>
  stablehlo.return %1 : tensor<f64>
}) {sym_name = "F2", inputs = [@x]} : () -> ()

"tidu.graph"() ({
  %0 = "tidu.external"() {ref = @F0::@p} : () -> tensor<f64>
  "tidu.name"(%0) {sym_name = "e"} : (tensor<f64>) -> ()
  stablehlo.return %0 : tensor<f64>
}) {sym_name = "F1", inputs = []} : () -> ()

"tidu.graph"() ({
^bb0(%x: tensor<f64>):
  %0 = stablehlo.sine %x : tensor<f64>
  "tidu.name"(%0) {sym_name = "p"} : (tensor<f64>) -> ()
  stablehlo.return %0 : tensor<f64>
}) {sym_name = "F0", inputs = [@x]} : () -> ()
