// RUN: tiduc opt %s --pass-pipeline='tidu-cut{wrt=x}' | filecheck %s --check-prefix=FOUND
// RUN: tiduc opt %s --pass-pipeline='tidu-cut{wrt=x at=@F0::@h}' | filecheck %s
// RUN: tiduc opt %s --pass-pipeline='tidu-cut{wrt=x at=@F0::@h},tidu-linear-transpose{graph=C0},tidu-materialize-merge{values=@C1::@y.tangent,@T0::@x.cotangent}' | filecheck %s --check-prefix=BOTH
// RUN: not tiduc opt %s --pass-pipeline='tidu-cut{wrt=x at=@F0::@a}' 2>&1 | filecheck %s --check-prefix=AROUND

// A function from 100 numbers through two numbers to 100: two cotangents and two tangents give its Jacobian.

// FOUND: tidu.plan = {at = [@F0::@{{h|v0}}], cheapest = "cut", cut_seconds = {{.*}}, seeds = 2 : i64}

// CHECK:        sym_name = "F0"
// CHECK:        sym_name = "L0"
// CHECK:      ^bb0(%[[DX:.*]]: tensor<100xf64>):
// CHECK:        stablehlo.dot_general %[[DX]]
// CHECK:        sym_name = "C0", tidu.active_outputs = array<i1: true>, tidu.input_of = [@F0::@x], tidu.output_of = [@F0::@h],
// CHECK-SAME:   tidu.plan = {at = [@F0::@h], cheapest = "cut", {{.*}}forward_seconds = {{.*}} : f64, reverse_seconds = {{.*}} : f64, seeds = 2 : i64}
// CHECK:      ^bb0(%[[DH:.*]]: tensor<2xf64>):
// CHECK:        {ref = @L0::@{{.*}}}
// CHECK:        stablehlo.multiply {{.*}}, %[[DH]]
// CHECK:        stablehlo.dot_general
// CHECK:        sym_name = "C1", tidu.active_outputs = array<i1: true>, tidu.input_of = [@F0::@h], tidu.output_of = [@F0::@y]
// CHECK-NOT:  tidu.graph

// BOTH: inputs = [@a, @x, @T0.h, @C1.0]
// AROUND: error: the cut lists @F0::@a, which has no tangent in graph @L0
"tidu.graph"() ({
^bb0(%a: tensor<100x2xf64>, %x: tensor<100xf64>):
  %0 = stablehlo.dot_general %x, %a, contracting_dims = [0] x [0] : (tensor<100xf64>, tensor<100x2xf64>) -> tensor<2xf64>
  %1 = stablehlo.sine %0 : tensor<2xf64>
  %2 = stablehlo.dot_general %a, %1, contracting_dims = [1] x [0] : (tensor<100x2xf64>, tensor<2xf64>) -> tensor<100xf64>
  "tidu.name"(%0) {sym_name = "h"} : (tensor<2xf64>) -> ()
  "tidu.name"(%2) {sym_name = "y"} : (tensor<100xf64>) -> ()
  stablehlo.return %2 : tensor<100xf64>
}) {sym_name = "F0", inputs = [@a, @x]} : () -> ()
