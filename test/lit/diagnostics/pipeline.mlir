// RUN: not tiduc opt %s --pass-pipeline='tidu-import,tidu-linearise' 2>&1 | filecheck %s --check-prefix=PASS
// RUN: not tiduc opt %s --pass-pipeline='cse,no-such-pass,tidu-import' 2>&1 | filecheck %s --check-prefix=NATIVE
// RUN: not tiduc opt %s --pass-pipeline='tidu-import{x=y}' 2>&1 | filecheck %s --check-prefix=OPTION
// RUN: not tiduc opt %s --pass-pipeline='cse{x=y}' 2>&1 | filecheck %s --check-prefix=NATIVE-OPTION
// RUN: not tiduc opt %s --pass-pipeline='tidu-materialize-merge{keep-dead-inputs=maybe}' 2>&1 | filecheck %s --check-prefix=BOOL
// RUN: not tiduc opt %s --pass-pipeline='tidu-linearize{outputs=main}' 2>&1 | filecheck %s --check-prefix=REFERENCE
// RUN: not tiduc opt %s --pass-pipeline='func.func(tidu-import)' 2>&1 | filecheck %s --check-prefix=NESTED
// RUN: not tiduc opt %s --pass-pipeline='func.func(cse' 2>&1 | filecheck %s --check-prefix=OPEN
// RUN: not tiduc opt %s --pass-pipeline='cse)' 2>&1 | filecheck %s --check-prefix=CLOSED

// PASS:          pass-pipeline:1:13: error: unknown pass 'tidu-linearise'; did you mean 'tidu-linearize'?
// NATIVE:        pass-pipeline:1:5: error: 'no-such-pass' does not refer to a registered pass or pass pipeline
// OPTION:        pass-pipeline:1:1: error: no option 'x' in 'tidu-import'; there are: 'inline'
// NATIVE-OPTION: pass-pipeline:1:1: error: no such option x
// BOOL:          pass-pipeline:1:1: error: option 'keep-dead-inputs' of 'tidu-materialize-merge' expects true or false, has 'maybe'
// REFERENCE:     pass-pipeline:1:1: error: option 'outputs' of 'tidu-linearize' expects a reference such as @main::@v0, has 'main'
// NESTED:        pass-pipeline:1:11: error: 'tidu-import' runs on a module and cannot be nested
// OPEN:          pass-pipeline:1:1: error: expected ')' before the end
// CLOSED:        pass-pipeline:1:1: error: ')' at 4 has no opening partner
func.func @main(%x: tensor<f64>) -> tensor<f64> {
  return %x : tensor<f64>
}
