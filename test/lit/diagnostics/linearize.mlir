// RUN: not tiduc opt %s --pass-pipeline='tidu-linearize{wrt=q}' 2>&1 | filecheck %s --check-prefix=UNKNOWN
// RUN: not tiduc opt %s --pass-pipeline='tidu-linearize{wrt=x,x}' 2>&1 | filecheck %s --check-prefix=TWICE
// RUN: not tiduc opt %s --pass-pipeline='tidu-linearize{wrt=n}' 2>&1 | filecheck %s --check-prefix=INTEGER
// RUN: not tiduc opt %s --pass-pipeline='tidu-linearize{outputs=@F0::@p,@F0::@p}' 2>&1 | filecheck %s --check-prefix=OUTPUT
// RUN: not tiduc opt %s --pass-pipeline='tidu-linearize{outputs=@F0::@q}' 2>&1 | filecheck %s --check-prefix=VALUE
// RUN: not tiduc opt %s --pass-pipeline='tidu-linearize{graph=G}' 2>&1 | filecheck %s --check-prefix=GRAPH
// RUN: not tiduc opt %s --pass-pipeline='tidu-linearize{name=F0}' 2>&1 | filecheck %s --check-prefix=NAME
// RUN: not tiduc opt %s --pass-pipeline='tidu-linear-transpose' 2>&1 | filecheck %s --check-prefix=NONE
// RUN: not tiduc opt %s --pass-pipeline='tidu-linear-transpose{graph=F0}' 2>&1 | filecheck %s --check-prefix=LINEAR
// RUN: not tiduc opt %s --pass-pipeline='tidu-linearize{wrt=x},tidu-lower' 2>&1 | filecheck %s --check-prefix=LOWER

// UNKNOWN: linearize.mlir: error: unknown input @q
// TWICE:   linearize.mlir: error: wrt @x is given twice
// INTEGER: linearize.mlir: error: @n has no tangent: its type is tensor<i32>
// OUTPUT:  linearize.mlir: error: output @F0::@p is given twice
// VALUE:   linearize.mlir: error: unknown value @q in graph @F0
// GRAPH:   linearize.mlir: error: unknown graph @G
// NAME:    linearize.mlir: error: the module has a graph @F0 already
// NONE:    linearize.mlir:{{.*}} error: the module has no linear graph
// LINEAR:  linearize.mlir:{{.*}} error: graph @F0 is not linear
// LOWER:   error: graph @L0 refers to a value of @F0: run tidu-materialize-merge first
"tidu.graph"() ({
^bb0(%x: tensor<f64>, %n: tensor<i32>):
  %0 = stablehlo.sine %x : tensor<f64>
  "tidu.name"(%0) {sym_name = "p"} : (tensor<f64>) -> ()
  stablehlo.return %0 : tensor<f64>
}) {sym_name = "F0", inputs = [@x, @n]} : () -> ()
