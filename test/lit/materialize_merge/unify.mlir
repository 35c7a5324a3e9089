// RUN: tiduc opt %s --pass-pipeline='tidu-materialize-merge{values=@F0::@p,@F1::@q inputs=x name=both}' | filecheck %s

// Two graphs compute sin(x) separately. Their inputs have equal keys, so the two values are merged.

// CHECK:      stablehlo.sine
// CHECK-NOT:  stablehlo.sine
// CHECK:      stablehlo.return %[[P:.*]], %[[P]]
"tidu.graph"() ({
^bb0(%x: tensor<f64>):
  %0 = stablehlo.sine %x : tensor<f64>
  "tidu.name"(%0) {sym_name = "p"} : (tensor<f64>) -> ()
  stablehlo.return %0 : tensor<f64>
}) {sym_name = "F0", inputs = [@x]} : () -> ()
"tidu.graph"() ({
^bb0(%x: tensor<f64>):
  %0 = stablehlo.sine %x : tensor<f64>
  "tidu.name"(%0) {sym_name = "q"} : (tensor<f64>) -> ()
  stablehlo.return %0 : tensor<f64>
}) {sym_name = "F1", inputs = [@x]} : () -> ()
