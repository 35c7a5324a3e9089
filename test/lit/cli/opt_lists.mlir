// RUN: tiduc opt --show-dialects | filecheck %s --check-prefix=DIALECTS
// RUN: tiduc opt --list-passes | filecheck %s --check-prefix=PASSES
// RUN: echo '"foo.bar"() {x = 1 : i32} : () -> ()' | tiduc opt --allow-unregistered-dialect --verify-roundtrip - | filecheck %s --check-prefix=ALLOWED
// RUN: echo '"foo.bar"() : () -> ()' | not tiduc opt 2>&1 | filecheck %s --check-prefix=REFUSED
// RUN: tiduc opt %s --emit-bytecode -o %t.mlirbc
// RUN: tiduc opt %t.mlirbc --verify-roundtrip | filecheck %s --check-prefix=READ

// DIALECTS: Available Dialects: {{.*}}chlo, {{.*}}stablehlo, {{.*}}tidu,
// PASSES:   --tidu-linearize{{ .*}}Adds the linear graph
// PASSES:   --tidu-grad
// PASSES:   --canonicalize
// PASSES:   --stablehlo-aggressive-simplification
// ALLOWED:  "foo.bar"() {x = 1 : i32} : () -> ()
// REFUSED:  unregistered dialect{{.*}}--allow-unregistered-dialect
// READ:     func.func @main
func.func @main(%x: tensor<f64>) -> tensor<f64> {
  return %x : tensor<f64>
}
