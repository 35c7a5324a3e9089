"tidu.graph"() ({
^bb0(%x: tensor<f64>):
  %0 = stablehlo.sine %x : tensor<f64>
  "tidu.name"(%0) {sym_name = "p"} : (tensor<f64>) -> ()
  stablehlo.return %0 : tensor<f64>
}) {sym_name = "F0", inputs = [@x]} : () -> ()
