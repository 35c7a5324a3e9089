// RUN: cat %s | tiduc grad - --wrt x | tiduc jvp - --wrt x -o - | filecheck %s
// RUN: tiduc grad %s --wrt x --emit=artifact | tiduc jvp - --wrt x | filecheck %s
// RUN: tiduc grad %s --wrt x --emit=bytecode -o %t.mlirbc
// RUN: tiduc jvp %t.mlirbc --wrt x | filecheck %s
// RUN: tiduc grad %s --wrt x -o %t.mlir
// RUN: tiduc jvp %t.mlir --wrt x | filecheck %s

// A derivative of a derivative through a pipe, as text, bytecode and portable artifact; all formats keep names.

// CHECK:      func.func @main
// CHECK-SAME:   {tidu.name = "x.tangent"}
// CHECK-SAME:   {tidu.name = "x.cotangent.tangent"}
// CHECK:      stablehlo.exponential
func.func @main(%a: tensor<f64> {tidu.name = "a"}, %x: tensor<f64> {tidu.name = "x"}) -> tensor<f64> {
  %0 = stablehlo.multiply %a, %x : tensor<f64>
  %1 = stablehlo.exponential %0 : tensor<f64>
  return %1 : tensor<f64>
}
