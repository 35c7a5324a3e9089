// RUN: tiduc dialect --irdl -o %t.irdl.mlir
// RUN: iree-opt --irdl-file=%t.irdl.mlir %s | filecheck %s
// RUN: torch-mlir-opt --irdl-file=%t.irdl.mlir %s | filecheck %s
// RUN: echo '"tidu.external"() : () -> tensor<f64>' | not iree-opt --irdl-file=%t.irdl.mlir - 2>&1 | filecheck %s --check-prefix=REFUSED
// RUN: echo '%%0 = "tidu.external"() {ref = @F::@v} : () -> tensor<f64>' | iree-opt --irdl-file=%t.irdl.mlir - | filecheck %s --check-prefix=ACCEPTED

// Other MLIR tools read tiduc's files if they load the dialect as IRDL.

// CHECK:    "tidu.graph"() ({
// CHECK:      "tidu.external"() {ref = @F0::@p} : () -> tensor<f64>
// REFUSED:  error: 'tidu.external' op attribute "ref" is expected but not provided
// ACCEPTED: "tidu.external"() {ref = @F::@v}
"tidu.graph"() ({
^bb0(%x: tensor<f64>):
  %0 = "tidu.external"() {ref = @F0::@p} : () -> tensor<f64>
  %1 = stablehlo.add %0, %x : tensor<f64>
  stablehlo.return %1 : tensor<f64>
}) {sym_name = "F1", inputs = [@x]} : () -> ()
