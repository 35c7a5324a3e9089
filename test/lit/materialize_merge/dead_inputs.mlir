// RUN: tiduc opt %s --pass-pipeline='tidu-materialize-merge{values=@F0::@x inputs=a,x}' | filecheck %s --check-prefix=KEPT
// RUN: tiduc opt %s --pass-pipeline='tidu-materialize-merge{values=@F0::@x inputs=a,x keep-dead-inputs=false}' | filecheck %s --check-prefix=LEFT

// KEPT: inputs = [@a, @x]
// LEFT: inputs = [@x]
"tidu.graph"() ({
^bb0(%a: tensor<f64>, %x: tensor<f64>):
  %0 = stablehlo.multiply %a, %x : tensor<f64>
  %1 = stablehlo.exponential %0 : tensor<f64>
  "tidu.name"(%1) {sym_name = "p3"} : (tensor<f64>) -> ()
  stablehlo.return %1 : tensor<f64>
}) {sym_name = "F0", inputs = [@a, @x]} : () -> ()
