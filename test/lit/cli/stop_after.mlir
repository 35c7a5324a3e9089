// RUN: tiduc vjp %s --stop-after import | filecheck %s --check-prefix=IMPORT
// RUN: tiduc vjp %s --stop-after linearize | filecheck %s --check-prefix=LINEARIZE
// RUN: tiduc vjp %s --stop-after linear_transpose | filecheck %s --check-prefix=TRANSPOSE
// RUN: tiduc vjp %s --stop-after materialize_merge | filecheck %s --check-prefix=MERGE
// RUN: tiduc vjp %s --stop-after lower | filecheck %s --check-prefix=LOWER
// RUN: tiduc grad %s --stop-after linear_transpose | filecheck %s --check-prefix=GRAD
// RUN: tiduc vjp %s --stop-after linearize | tiduc opt - --pass-pipeline=tidu-linear-transpose,tidu-resolve | filecheck %s --check-prefix=TRANSPOSE

// IMPORT:     sym_name = "main"
// IMPORT-NOT: sym_name
// LINEARIZE:     sym_name = "main"
// LINEARIZE:     sym_name = "L0"
// LINEARIZE-NOT: sym_name = "T
// TRANSPOSE:  sym_name = "L0"
// TRANSPOSE:  sym_name = "T0"
// MERGE-NOT:  tidu.external
// MERGE:      sym_name = "main", tidu.merged
// LOWER:      func.func @main
// GRAD:       sym_name = "T0"
// GRAD:       sym_name = "S0"
// GRAD:       "tidu.bind"() {input = @T0.{{.*}}, value = @S0::@
func.func @main(%a: tensor<f64> {tidu.name = "a"}, %x: tensor<f64> {tidu.name = "x"}) -> tensor<f64> {
  %0 = stablehlo.multiply %a, %x : tensor<f64>
  %1 = stablehlo.exponential %0 : tensor<f64>
  return %1 : tensor<f64>
}
