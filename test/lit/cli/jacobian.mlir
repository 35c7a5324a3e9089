// RUN: tiduc jacobian %s --wrt x | filecheck %s --check-prefix=WHOLE
// RUN: tiduc jacobian %s --wrt x --sparsity diagonal --value | filecheck %s --check-prefix=DIAGONAL
// RUN: tiduc jacobian %s --wrt x --mode forward | filecheck %s --check-prefix=FORWARD
// RUN: tiduc jacobian %s --wrt x --mode reverse | filecheck %s --check-prefix=REVERSE
// RUN: tiduc hessian %s --wrt x --sparsity diagonal | tiduc run - --input 1,2 --input 3,4 | filecheck %s --check-prefix=HESSIAN
// RUN: tiduc laplacian %s --wrt x,a | tiduc run - --input 1,2 --input 3,4 | filecheck %s --check-prefix=LAPLACIAN
// RUN: tiduc jvp %s --wrt x --batch 5 | filecheck %s --check-prefix=BATCH
// RUN: not tiduc jacobian %s --wrt y 2>&1 | filecheck %s --check-prefix=ERROR

// WHOLE:      func.func @main(%arg0: tensor<2xf64> {tidu.name = "a"}, %arg1: tensor<2xf64> {tidu.name = "x"})
// WHOLE-SAME:   -> (tensor<2x2xf64> {tidu.name = "result0.jacobian.x"})

// Each basis vector gives a column in forward mode, and a row in reverse mode.
// FORWARD:     %[[J:.*]] = stablehlo.transpose %{{.*}}, dims = [1, 0]
// FORWARD-NEXT: return %[[J]]
// REVERSE:     stablehlo.iota
// REVERSE-NOT: stablehlo.transpose

// DIAGONAL:      %[[S:.*]] = stablehlo.multiply %arg1, %arg1 : tensor<2xf64>
// DIAGONAL-NOT:  tensor<2x2xf64>
// DIAGONAL:      return

// HESSIAN:    result0.hessian.x.x: 2x2xf64=[[2.0,0.0],[0.0,4.0]]
// LAPLACIAN:  result0.laplacian: 2xf64=2.0,4.0
// BATCH:      %arg2: tensor<5x2xf64> {tidu.name = "x.tangent"}
// BATCH-SAME:   -> (tensor<2xf64>, tensor<5x2xf64> {tidu.name = "result0.tangent"})
// ERROR:      error: unknown input 'y' in wrt; the inputs are 0: a, 1: x
func.func @main(%a: tensor<2xf64> {tidu.name = "a"}, %x: tensor<2xf64> {tidu.name = "x"}) -> tensor<2xf64> {
  %0 = stablehlo.multiply %x, %x : tensor<2xf64>
  %1 = stablehlo.multiply %a, %0 : tensor<2xf64>
  return %1 : tensor<2xf64>
}
