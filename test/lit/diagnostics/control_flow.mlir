// RUN: tiduc opt %s --split-input-file --verify-diagnostics --pass-pipeline=tidu-resolve

// Control-flow ops must agree with the graphs that they call.

"tidu.graph"() ({
^bb0(%x: tensor<f64>):
  // expected-error @+1 {{unknown graph @nobody}}
  %y = stablehlo.custom_call @tidu.call(%x) {called_computations = [@nobody]} : (tensor<f64>) -> tensor<f64>
  stablehlo.return %y : tensor<f64>
}) {sym_name = "F0", inputs = [@x]} : () -> ()
// -----
"tidu.graph"() ({
^bb0(%x: tensor<f64>):
  // expected-error @+1 {{expects graphs in called_computations, has None}}
  %y = stablehlo.custom_call @tidu.call(%x) : (tensor<f64>) -> tensor<f64>
  stablehlo.return %y : tensor<f64>
}) {sym_name = "F0", inputs = [@x]} : () -> ()
// -----
"tidu.graph"() ({
^bb0(%a: tensor<f64>):
  stablehlo.return %a : tensor<f64>
}) {sym_name = "B", inputs = [@B.0], sym_visibility = "private"} : () -> ()
"tidu.graph"() ({
^bb0(%x: tensor<f64>):
  // expected-error @+1 {{@B takes (tensor<f64>), but the types here are (tensor<f64>, tensor<f64>)}}
  %y = stablehlo.custom_call @tidu.call(%x, %x) {called_computations = [@B]}
      : (tensor<f64>, tensor<f64>) -> tensor<f64>
  stablehlo.return %y : tensor<f64>
}) {sym_name = "F0", inputs = [@x]} : () -> ()
// -----
"tidu.graph"() ({
^bb0(%a: tensor<f64>):
  stablehlo.return %a : tensor<f64>
}) {sym_name = "B", inputs = [@B.0], sym_visibility = "private"} : () -> ()
"tidu.graph"() ({
^bb0(%x: tensor<f64>):
  // expected-error @+1 {{@B gives (tensor<f64>), but the types here are (tensor<f32>)}}
  %y = stablehlo.custom_call @tidu.call(%x) {called_computations = [@B]} : (tensor<f64>) -> tensor<f32>
  stablehlo.return %y : tensor<f32>
}) {sym_name = "F0", inputs = [@x]} : () -> ()
// -----
"tidu.graph"() ({
^bb0(%a: tensor<f64>):
  stablehlo.return %a : tensor<f64>
}) {sym_name = "B", inputs = [@B.0], sym_visibility = "private"} : () -> ()
"tidu.graph"() ({
^bb0(%x: tensor<f64>):
  // expected-error @+1 {{expects an i32 index (or i1 for two graphs), has tensor<f64>}}
  %y = stablehlo.custom_call @tidu.case(%x, %x) {called_computations = [@B, @B]}
      : (tensor<f64>, tensor<f64>) -> tensor<f64>
  stablehlo.return %y : tensor<f64>
}) {sym_name = "F0", inputs = [@x]} : () -> ()
// -----
"tidu.graph"() ({
^bb0(%a: tensor<f64>):
  stablehlo.return %a : tensor<f64>
}) {sym_name = "B", inputs = [@B.0], sym_visibility = "private"} : () -> ()
"tidu.graph"() ({
^bb0(%x: tensor<f64>):
  // expected-error @+1 {{expects integers in tidu.carries and tidu.sequences, has None}}
  %y = stablehlo.custom_call @tidu.loop(%x) {called_computations = [@B]} : (tensor<f64>) -> tensor<f64>
  stablehlo.return %y : tensor<f64>
}) {sym_name = "F0", inputs = [@x]} : () -> ()
// -----
"tidu.graph"() ({
^bb0(%a: tensor<f64>):
  stablehlo.return %a : tensor<f64>
}) {sym_name = "B", inputs = [@B.0], sym_visibility = "private"} : () -> ()
"tidu.graph"() ({
^bb0(%x: tensor<f64>):
  // expected-error @+1 {{needs a condition or a sequence, which determines when it ends}}
  %y = stablehlo.custom_call @tidu.loop(%x)
      {called_computations = [@B], tidu.carries = 1 : i64, tidu.sequences = 0 : i64} : (tensor<f64>) -> tensor<f64>
  stablehlo.return %y : tensor<f64>
}) {sym_name = "F0", inputs = [@x]} : () -> ()
// -----
"tidu.graph"() ({
^bb0(%a: tensor<f64>):
  stablehlo.return %a : tensor<f64>
}) {sym_name = "B", inputs = [@B.0], sym_visibility = "private"} : () -> ()
"tidu.graph"() ({
^bb0(%x: tensor<f64>):
  // expected-error @+1 {{@B gives (tensor<f64>), but the types here are (tensor<i1>)}}
  %y = stablehlo.custom_call @tidu.loop(%x)
      {called_computations = [@B, @B], tidu.carries = 1 : i64, tidu.sequences = 0 : i64}
      : (tensor<f64>) -> tensor<f64>
  stablehlo.return %y : tensor<f64>
}) {sym_name = "F0", inputs = [@x]} : () -> ()
// -----
"tidu.graph"() ({
^bb0(%x: tensor<f64>):
  // expected-error @+1 {{calls @F0, which contains this call}}
  %y = stablehlo.custom_call @tidu.call(%x) {called_computations = [@F0]} : (tensor<f64>) -> tensor<f64>
  stablehlo.return %y : tensor<f64>
}) {sym_name = "F0", inputs = [@x]} : () -> ()
