// RUN: tiduc opt %s --pass-pipeline=tidu-import,tidu-linearize | filecheck %s --check-prefix=LIN
// RUN: tiduc opt %s --pass-pipeline=tidu-import,tidu-linearize,tidu-linear-transpose | filecheck %s --check-prefix=TRN
// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// The linear branch reads a residual of the primal branch with the same predicate; both `if` ops become one.

// LIN:      sym_name = "main"
// LIN:      sym_name = "B.primal0"
// LIN:      sym_name = "B.jvp0"
// LIN:      sym_name = "B.primal1"
// LIN:      sym_name = "B.jvp1"
// LIN:      %[[P:.*]] = "tidu.external"() {ref = @main::@p}
// LIN:      %[[R:.*]]:2 = stablehlo.custom_call @tidu.case(%[[P]]
// LIN-SAME:   {called_computations = [@B.primal0, @B.primal1], tidu.base = @B0}
// LIN-NEXT: stablehlo.custom_call @tidu.case(%[[P]], %arg0, %[[R]]#1)
// LIN-SAME:   {called_computations = [@B.jvp0, @B.jvp1], tidu.active = array<i1: false, true, false>}

// TRN:      stablehlo.custom_call @tidu.case({{.*}}, %arg0, {{.*}}) {called_computations = [@B.jvp.transpose0, @B.jvp.transpose1]
// TRN-SAME:   tidu.active = array<i1: false, true, false>}

// JVP:      %[[Y:.*]]:2 = "stablehlo.if"(%arg0) ({
// JVP-NEXT:   %[[S:.*]] = stablehlo.sine %arg1
// JVP-NEXT:   %[[C:.*]] = stablehlo.cosine %arg1
// JVP-NEXT:   %[[D:.*]] = stablehlo.multiply %[[C]], %arg2
// JVP-NEXT:   stablehlo.return %[[S]], %[[D]]
// JVP-NEXT: }, {
// JVP-NEXT:   %[[E:.*]] = stablehlo.exponential %arg1
// JVP-NEXT:   %[[D:.*]] = stablehlo.multiply %[[E]], %arg2
// JVP-NEXT:   stablehlo.return %[[E]], %[[D]]
// JVP-NEXT: })
// JVP-NEXT: return %[[Y]]#0, %[[Y]]#1

// VJP:      "stablehlo.if"(%arg0) ({
// VJP-NEXT:   stablehlo.sine %arg1
// VJP-NEXT:   %[[C:.*]] = stablehlo.cosine %arg1
// VJP-NEXT:   stablehlo.multiply %[[C]], %arg2
// VJP:      }, {
// VJP-NEXT:   %[[E:.*]] = stablehlo.exponential %arg1
// VJP-NEXT:   stablehlo.multiply %[[E]], %arg2
// VJP:      })
// VJP-NOT:  stablehlo.if
func.func @main(%p: tensor<i1> {tidu.name = "p"}, %x: tensor<f64> {tidu.name = "x"}) -> tensor<f64> {
  %0 = "stablehlo.if"(%p) ({
    %1 = stablehlo.sine %x : tensor<f64>
    stablehlo.return %1 : tensor<f64>
  }, {
    %1 = stablehlo.exponential %x : tensor<f64>
    stablehlo.return %1 : tensor<f64>
  }) : (tensor<i1>) -> tensor<f64>
  return %0 : tensor<f64>
}
