// RUN: tiduc opt %s --split-input-file --verify-diagnostics

// Malformed linear graphs and active masks.

"tidu.graph"() ({
^bb0(%x: tensor<f64>):
  // expected-error @+1 {{'stablehlo.negate' op carries an active mask in a graph without tangent inputs}}
  %0 = stablehlo.negate %x {tidu.active = array<i1: true>} : tensor<f64>
  stablehlo.return %0 : tensor<f64>
}) {sym_name = "F0", inputs = [@x]} : () -> ()
// -----
// expected-error @+1 {{'tidu.graph' op is linear, but lacks tidu.output_of or tidu.active_outputs}}
"tidu.graph"() ({
^bb0(%x: tensor<f64>):
  stablehlo.return %x : tensor<f64>
}) {sym_name = "L0", inputs = [@x], tidu.input_of = [@F0::@x]} : () -> ()
// -----
// expected-error @+1 {{'tidu.graph' op has 2 tidu.input_of for 1 inputs}}
"tidu.graph"() ({
^bb0(%x: tensor<f64>):
  stablehlo.return %x : tensor<f64>
}) {sym_name = "L0", inputs = [@x], tidu.active_outputs = array<i1: true>, tidu.input_of = [@F0::@x, @F0::@y], tidu.output_of = [@F0::@p]} : () -> ()
// -----
// expected-error @+1 {{'tidu.graph' op has 2 tidu.active_outputs for 1 outputs}}
"tidu.graph"() ({
^bb0(%x: tensor<f64>):
  stablehlo.return %x : tensor<f64>
}) {sym_name = "L0", inputs = [@x], tidu.active_outputs = array<i1: true, false>, tidu.input_of = [@F0::@x], tidu.output_of = [@F0::@p]} : () -> ()
// -----
// expected-error @+1 {{'tidu.graph' op expects tidu.active_outputs to be an array<i1>}}
"tidu.graph"() ({
^bb0(%x: tensor<f64>):
  stablehlo.return %x : tensor<f64>
}) {sym_name = "L0", inputs = [@x], tidu.active_outputs = array<i8: 1>, tidu.input_of = [@F0::@x], tidu.output_of = [@F0::@p]} : () -> ()
// -----
"tidu.graph"() ({
^bb0(%x: tensor<f64>):
  // expected-error @+1 {{'stablehlo.return' op expects one value for each active output, 0}}
  stablehlo.return %x : tensor<f64>
}) {sym_name = "L0", inputs = [@x], tidu.active_outputs = array<i1: false>, tidu.input_of = [@F0::@x], tidu.output_of = [@F0::@p]} : () -> ()
// -----
"tidu.graph"() ({
^bb0(%x: tensor<f64>):
  // expected-error @+1 {{'stablehlo.negate' op expects tidu.active to be an array<i1>}}
  %0 = stablehlo.negate %x {tidu.active = [true]} : tensor<f64>
  stablehlo.return %0 : tensor<f64>
}) {sym_name = "L0", inputs = [@x], tidu.active_outputs = array<i1: true>, tidu.input_of = [@F0::@x], tidu.output_of = [@F0::@p]} : () -> ()
// -----
"tidu.graph"() ({
^bb0(%x: tensor<f64>):
  // expected-error @+1 {{'stablehlo.negate' op has an active mask of 2 flags for 1 operands}}
  %0 = stablehlo.negate %x {tidu.active = array<i1: true, true>} : tensor<f64>
  stablehlo.return %0 : tensor<f64>
}) {sym_name = "L0", inputs = [@x], tidu.active_outputs = array<i1: true>, tidu.input_of = [@F0::@x], tidu.output_of = [@F0::@p]} : () -> ()
// -----
"tidu.graph"() ({
^bb0(%x: tensor<f64>):
  %e = "tidu.external"() {ref = @F0::@x} : () -> tensor<f64>
  // expected-error @+1 {{'stablehlo.multiply' op has the active mask [True, False], but its operands are [False, True]}}
  %0 = stablehlo.multiply %e, %x {tidu.active = array<i1: true, false>} : tensor<f64>
  stablehlo.return %0 : tensor<f64>
}) {sym_name = "L0", inputs = [@x], tidu.active_outputs = array<i1: true>, tidu.input_of = [@F0::@x], tidu.output_of = [@F0::@p]} : () -> ()
// -----
"tidu.graph"() ({
^bb0(%x: tensor<f64>):
  %e = "tidu.external"() {ref = @F0::@x} : () -> tensor<f64>
  // expected-error @+1 {{'stablehlo.sine' op carries an active mask, but no operand is active}}
  %0 = stablehlo.sine %e {tidu.active = array<i1: false>} : tensor<f64>
  stablehlo.return %x : tensor<f64>
}) {sym_name = "L0", inputs = [@x], tidu.active_outputs = array<i1: true>, tidu.input_of = [@F0::@x], tidu.output_of = [@F0::@p]} : () -> ()
// -----
"tidu.graph"() ({
^bb0(%x: tensor<f64>):
  %e = "tidu.external"() {ref = @F0::@x} : () -> tensor<f64>
  // expected-error @+1 {{'stablehlo.return' op returns the inactive value #0 as an active output}}
  stablehlo.return %e : tensor<f64>
}) {sym_name = "L0", inputs = [@x], tidu.active_outputs = array<i1: true>, tidu.input_of = [@F0::@x], tidu.output_of = [@F0::@p]} : () -> ()
