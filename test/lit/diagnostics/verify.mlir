// RUN: tiduc opt %s --split-input-file --verify-diagnostics

// One case for each error of dialect/ops/verify.py.

// expected-error @+1 {{'tidu.graph' op expects its block to end in stablehlo.return}}
"tidu.graph"() ({
^bb0(%x: tensor<f64>):
  %0 = stablehlo.negate %x : tensor<f64>
}) {sym_name = "F0", inputs = [@x]} : () -> ()
// -----
// expected-error @+1 {{'tidu.graph' op expects one block, has 2}}
"tidu.graph"() ({
^bb0(%x: tensor<f64>):
  stablehlo.return %x : tensor<f64>
^bb1(%y: tensor<f64>):
  stablehlo.return %y : tensor<f64>
}) {sym_name = "F0", inputs = [@x]} : () -> ()
// -----
// expected-error @+1 {{'tidu.graph' op expects one block, has 0}}
"tidu.graph"() ({}) {sym_name = "F0", inputs = []} : () -> ()
// -----
// expected-error @+1 {{'tidu.graph' op has 1 input keys for 2 block arguments}}
"tidu.graph"() ({
^bb0(%x: tensor<f64>, %y: tensor<f64>):
  stablehlo.return %x : tensor<f64>
}) {sym_name = "F0", inputs = [@x]} : () -> ()
// -----
// expected-error @+1 {{'tidu.graph' op expects input keys that are symbols}}
"tidu.graph"() ({
^bb0(%x: tensor<f64>):
  stablehlo.return %x : tensor<f64>
}) {sym_name = "F0", inputs = ["x"]} : () -> ()
// -----
// expected-error @+1 {{'tidu.graph' op defines the key @x a second time}}
"tidu.graph"() ({
^bb0(%x: tensor<f64>, %y: tensor<f64>):
  stablehlo.return %x : tensor<f64>
}) {sym_name = "F0", inputs = [@x, @x]} : () -> ()
// -----
"tidu.graph"() ({
^bb0(%x: tensor<f64>):
  // expected-error @+1 {{'tidu.name' op defines the key @x a second time}}
  "tidu.name"(%x) {sym_name = "x"} : (tensor<f64>) -> ()
  stablehlo.return %x : tensor<f64>
}) {sym_name = "F0", inputs = [@x]} : () -> ()
// -----
"tidu.graph"() ({
  // expected-error @+1 {{'tidu.external' op expects a reference @graph::@name, has @v}}
  %0 = "tidu.external"() {ref = @v} : () -> tensor<f64>
  stablehlo.return %0 : tensor<f64>
}) {sym_name = "F0", inputs = []} : () -> ()
// -----
"tidu.graph"() ({
  // expected-error @+1 {{'tidu.external' op expects a reference @graph::@name, has @a::@b::@c}}
  %0 = "tidu.external"() {ref = @a::@b::@c} : () -> tensor<f64>
  stablehlo.return %0 : tensor<f64>
}) {sym_name = "F0", inputs = []} : () -> ()
// -----
"tidu.graph"() ({
  // expected-error @+1 {{'tidu.external' op refers to @F0::@v in its own graph}}
  %0 = "tidu.external"() {ref = @F0::@v} : () -> tensor<f64>
  stablehlo.return %0 : tensor<f64>
}) {sym_name = "F0", inputs = []} : () -> ()
// -----
// expected-error @+1 {{'tidu.external' op expects to be directly in a tidu.graph}}
%0 = "tidu.external"() {ref = @F0::@v} : () -> tensor<f64>
// -----
func.func @main(%x: tensor<f64>) {
  // expected-error @+1 {{'tidu.name' op expects to be directly in a tidu.graph}}
  "tidu.name"(%x) {sym_name = "x"} : (tensor<f64>) -> ()
  return
}
// -----
// expected-error @+1 {{'tidu.bind' op expects an input key, has 1 : i64}}
"tidu.bind"() {input = 1, value = @F0::@v} : () -> ()
// -----
// expected-error @+1 {{'tidu.bind' op expects a reference @graph::@name, has @v}}
"tidu.bind"() {input = @x, value = @v} : () -> ()
