// RUN: tiduc link %s %S/Inputs/F0.mlir | filecheck %s
// RUN: tiduc link %s --search-path=%S --search-path=%S/Inputs | filecheck %s
// RUN: tiduc link %s %S/Inputs/F0.mlir | tiduc jvp - --entry F1 | filecheck %s --check-prefix=JVP
// RUN: not tiduc link %s 2>&1 | filecheck %s --check-prefix=UNKNOWN
// RUN: not tiduc link %s %s 2>&1 | filecheck %s --check-prefix=AMBIGUOUS
// RUN: not tiduc link %s %t.none.mlir 2>&1 | filecheck %s --check-prefix=MISSING

// CHECK:     sym_name = "F1"
// CHECK:     sym_name = "F0"
// JVP:       stablehlo.sine
// JVP:       stablehlo.cosine
// UNKNOWN:   graphs.mlir:{{[0-9]+}}:8: error: unknown graph @F0
// AMBIGUOUS: error: symbol @F1 is ambiguous: in {{.*}}graphs.mlir and in {{.*}}graphs.mlir
// MISSING:   .none.mlir: error: No such file or directory
"tidu.graph"() ({
^bb0(%x: tensor<f64>):
  %0 = "tidu.external"() {ref = @F0::@p} : () -> tensor<f64>
  %1 = stablehlo.add %0, %x : tensor<f64>
  stablehlo.return %1 : tensor<f64>
}) {sym_name = "F1", inputs = [@x]} : () -> ()
