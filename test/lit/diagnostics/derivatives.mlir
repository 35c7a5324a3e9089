// RUN: not tiduc jvp %s --entry g 2>&1 | filecheck %s --check-prefix=ENTRY
// RUN: not tiduc jvp %s --wrt 0,7 2>&1 | filecheck %s --check-prefix=POSITION
// RUN: not tiduc vjp %s --wrt y 2>&1 | filecheck %s --check-prefix=NAME
// RUN: not tiduc jvp %s --wrt x,0 2>&1 | filecheck %s --check-prefix=TWICE
// RUN: not tiduc vjp %s --wrt n 2>&1 | filecheck %s --check-prefix=INTEGER
// RUN: not tiduc grad %s 2>&1 | filecheck %s --check-prefix=SCALAR
// RUN: not tiduc hvp %s 2>&1 | filecheck %s --check-prefix=SCALAR
// RUN: not tiduc jvp %s --no-such-option 2>&1 | filecheck %s --check-prefix=OPTION
// RUN: not tiduc jvp %s --stop-after linear_transpose 2>&1 | filecheck %s --check-prefix=STAGE

// ENTRY:    derivatives.mlir: error: no public function @g; there are @main
// POSITION: derivatives.mlir: error: unknown input 7 in wrt; the inputs are 0: x, 1: n
// NAME:     derivatives.mlir: error: unknown input 'y' in wrt; the inputs are 0: x, 1: n
// TWICE:    derivatives.mlir: error: input 'x' is given twice in wrt
// INTEGER:  derivatives.mlir: error: input 'n' of type tensor<i32> has no derivative
// SCALAR:   derivatives.mlir: error: grad needs one real scalar float output; the outputs are (tensor<4xf64>); use vjp
// OPTION:   Error: No such option
// STAGE:    'linear_transpose' is not one of 'import', 'linearize', 'materialize_merge', 'structure', 'rematerialize', 'lower'
func.func @main(%x: tensor<4xf64> {tidu.name = "x"}, %n: tensor<i32> {tidu.name = "n"}) -> tensor<4xf64> {
  return %x : tensor<4xf64>
}
