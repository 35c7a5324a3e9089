// RUN: mkdir -p %t.lib && cp %S/../linearize/exp_ax.mlir %t.lib/F0.mlir
// RUN: tiduc opt %s --pass-pipeline='tidu-resolve{search-path=%t.lib},tidu-linearize{graph=H0 wrt=x}' | filecheck %s
// RUN: tiduc opt %s --pass-pipeline='tidu-resolve{search-path=%t.lib},tidu-linearize{graph=H0 wrt=x name=L1},tidu-linear-transpose{name=T1},tidu-materialize-merge{graph=H0 values=@H0::@y,@T1::@x.cotangent}' | filecheck %s --check-prefix=MERGE
// RUN: not tiduc opt %s --tidu-resolve 2>&1 | filecheck %s --check-prefix=ERROR

// Graphs that a module refers to are found on the search path and copied into the module for the next passes.

// CHECK:      sym_name = "H0"
// CHECK:      sym_name = "F0"
// CHECK:      "tidu.name"(%{{.*}}) {sym_name = "y.tangent"}
// CHECK:      sym_name = "L0"

// tidu-materialize-merge gets the values by name: here, the result and the cotangent of x.
// MERGE:      %[[AX:.*]] = stablehlo.multiply
// MERGE-NEXT: %[[E:.*]] = stablehlo.exponential %[[AX]]
// MERGE-NEXT: %[[Y:.*]] = stablehlo.sine %[[E]]
// MERGE:      stablehlo.return %[[Y]], %{{.*}} : tensor<f64>, tensor<f64>
// MERGE-NEXT: sym_name = "H0"

// ERROR:      search_path.mlir:{{[0-9]+}}:8: error: unknown graph @F0
"tidu.graph"() ({
^bb0:
  %0 = "tidu.external"() {ref = @F0::@p3} : () -> tensor<f64>
  %1 = stablehlo.sine %0 : tensor<f64>
  "tidu.name"(%1) {sym_name = "y"} : (tensor<f64>) -> ()
  stablehlo.return %1 : tensor<f64>
}) {sym_name = "H0", inputs = []} : () -> ()
