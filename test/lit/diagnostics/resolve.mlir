// RUN: tiduc opt %s --split-input-file --verify-diagnostics --pass-pipeline=tidu-resolve

// Invalid references between graphs.

// expected-error @+3 {{unknown graph @G}}
"tidu.graph"() ({
^bb0(%x: tensor<f64>):
  %e = "tidu.external"() {ref = @G::@v} : () -> tensor<f64>
  "tidu.name"(%e) {sym_name = "v"} : (tensor<f64>) -> ()
  stablehlo.return %e : tensor<f64>
}) {sym_name = "F0", inputs = [@x]} : () -> ()
// -----
// expected-error @+3 {{unknown value @w in graph @F1}}
"tidu.graph"() ({
^bb0(%x: tensor<f64>):
  %e = "tidu.external"() {ref = @F1::@w} : () -> tensor<f64>
  "tidu.name"(%e) {sym_name = "v"} : (tensor<f64>) -> ()
  stablehlo.return %e : tensor<f64>
}) {sym_name = "F0", inputs = [@x]} : () -> ()
"tidu.graph"() ({
^bb0(%x: tensor<f64>):
  stablehlo.return %x : tensor<f64>
}) {sym_name = "F1", inputs = [@x]} : () -> ()
// -----
// expected-error @+3 {{reference @F1::@x has type tensor<4xf64>, but the value is tensor<f64>}}
"tidu.graph"() ({
^bb0(%x: tensor<f64>):
  %e = "tidu.external"() {ref = @F1::@x} : () -> tensor<4xf64>
  "tidu.name"(%e) {sym_name = "v"} : (tensor<4xf64>) -> ()
  stablehlo.return %e : tensor<4xf64>
}) {sym_name = "F0", inputs = [@x]} : () -> ()
"tidu.graph"() ({
^bb0(%x: tensor<f64>):
  stablehlo.return %x : tensor<f64>
}) {sym_name = "F1", inputs = [@x]} : () -> ()
// -----
// expected-error @+3 {{reference @F1::@v leads back to itself}}
"tidu.graph"() ({
^bb0(%x: tensor<f64>):
  %e = "tidu.external"() {ref = @F1::@v} : () -> tensor<f64>
  "tidu.name"(%e) {sym_name = "v"} : (tensor<f64>) -> ()
  stablehlo.return %e : tensor<f64>
}) {sym_name = "F0", inputs = [@x]} : () -> ()
"tidu.graph"() ({
^bb0(%x: tensor<f64>):
  %e = "tidu.external"() {ref = @F0::@v} : () -> tensor<f64>
  "tidu.name"(%e) {sym_name = "v"} : (tensor<f64>) -> ()
  stablehlo.return %e : tensor<f64>
}) {sym_name = "F1", inputs = [@x]} : () -> ()
// -----
"tidu.graph"() ({
^bb0(%x: tensor<f64>):
  %e = "tidu.external"() {ref = @F1::@v} : () -> tensor<f64>
  %0 = stablehlo.sine %e : tensor<f64>
  "tidu.name"(%0) {sym_name = "v"} : (tensor<f64>) -> ()
  stablehlo.return %0 : tensor<f64>
}) {sym_name = "F0", inputs = [@x]} : () -> ()
"tidu.graph"() ({
^bb0(%x: tensor<f64>):
  %e = "tidu.external"() {ref = @F0::@v} : () -> tensor<f64>
  // expected-error @+1 {{a value depends on itself through its references}}
  %0 = stablehlo.cosine %e : tensor<f64>
  "tidu.name"(%0) {sym_name = "v"} : (tensor<f64>) -> ()
  stablehlo.return %0 : tensor<f64>
}) {sym_name = "F1", inputs = [@x]} : () -> ()
// -----
"tidu.graph"() ({
^bb0(%x: tensor<f64>):
  stablehlo.return %x : tensor<f64>
}) {sym_name = "F0", inputs = [@x]} : () -> ()
// expected-error @+1 {{redefinition of symbol named 'F0'}}
"tidu.graph"() ({
^bb0(%x: tensor<f64>):
  stablehlo.return %x : tensor<f64>
}) {sym_name = "F0", inputs = [@x]} : () -> ()
// -----
"tidu.graph"() ({
^bb0(%x: tensor<f64>):
  stablehlo.return %x : tensor<f64>
}) {sym_name = "F0", inputs = [@x]} : () -> ()
// expected-error @+1 {{input @x is tensor<f32> in @F1, but tensor<f64> in @F0}}
"tidu.graph"() ({
^bb0(%x: tensor<f32>):
  stablehlo.return %x : tensor<f32>
}) {sym_name = "F1", inputs = [@x]} : () -> ()
// -----
"tidu.graph"() ({
^bb0(%x: tensor<f64>):
  stablehlo.return %x : tensor<f64>
}) {sym_name = "F0", inputs = [@x]} : () -> ()
// expected-error @+1 {{a tangent of type tensor<f32> in @L0 for @F0::@x, a tensor<f64>}}
"tidu.graph"() ({
^bb0(%dx: tensor<f32>):
  stablehlo.return %dx : tensor<f32>
}) {sym_name = "L0", inputs = [@dx], tidu.active_outputs = array<i1: true>, tidu.input_of = [@F0::@x], tidu.output_of = [@F0::@x]} : () -> ()
