// RUN: tiduc opt %s --pass-pipeline=tidu-import,tidu-linearize | filecheck %s --check-prefix=LIN
// RUN: tiduc opt %s --pass-pipeline=tidu-import,tidu-linearize,tidu-linear-transpose | filecheck %s --check-prefix=TRN
// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// A function is linearized once and transposed once for all its calls.

// LIN:      sym_name = "cell"
// LIN:      sym_name = "main"
// LIN:      %[[P:.*]] = stablehlo.multiply %arg0, %arg1
// LIN-NEXT: %[[Y:.*]] = stablehlo.sine %[[P]]
// LIN-NEXT: %[[R:.*]] = stablehlo.cosine %[[P]]
// LIN-NEXT: stablehlo.return %[[Y]], %[[R]]
// LIN:      sym_name = "cell.primal0"
// LIN:      sym_name = "cell.jvp0"
// LIN-NOT:  sym_name = "cell.jvp1"
// LIN:      %[[R0:.*]]:2 = stablehlo.custom_call @tidu.call({{.*}}) {called_computations = [@cell.primal0], tidu.base = @cell}
// LIN-NEXT: %[[D0:.*]] = stablehlo.custom_call @tidu.call(%arg0, %arg1, {{.*}}, %[[R0]]#1)
// LIN-SAME:   {called_computations = [@cell.jvp0], tidu.active = array<i1: true, true, false, false, false>}
// LIN:      %[[R1:.*]]:2 = stablehlo.custom_call @tidu.call({{.*}}) {called_computations = [@cell.primal0], tidu.base = @cell}
// LIN-NEXT: stablehlo.custom_call @tidu.call(%[[D0]], %arg1, {{.*}}, %[[R1]]#1) {called_computations = [@cell.jvp0]
// LIN:      sym_name = "L0"

// TRN:      sym_name = "cell.jvp.transpose0"
// TRN:      %[[C:.*]]:2 = stablehlo.custom_call @tidu.call(%arg0, {{.*}}) {called_computations = [@cell.jvp.transpose0]
// TRN-SAME:   tidu.active = array<i1: true, false, false, false>}
// TRN:      %[[D:.*]]:2 = stablehlo.custom_call @tidu.call(%[[C]]#0, {{.*}}) {called_computations = [@cell.jvp.transpose0]
// TRN-NEXT: stablehlo.add %[[C]]#1, %[[D]]#1 {tidu.active = array<i1: true, true>}
// TRN:      sym_name = "T0"

// JVP:      func.func @main
// JVP-NEXT: %[[A:.*]]:2 = call @cell.primal(%arg0, %arg1)
// JVP-NEXT: %[[B:.*]]:2 = call @cell.primal(%[[A]]#0, %arg1)
// JVP-NEXT: %[[D:.*]] = call @cell.jvp(%arg2, %arg3, %arg0, %arg1, %[[A]]#1)
// JVP-NEXT: %[[E:.*]] = call @cell.jvp(%[[D]], %arg3, %[[A]]#0, %arg1, %[[B]]#1)
// JVP-NEXT: return %[[B]]#0, %[[E]]

// VJP:      func.func @main
// VJP-NEXT: %[[A:.*]]:2 = call @cell.primal(%arg0, %arg1)
// VJP-NEXT: %[[B:.*]]:2 = call @cell.primal(%[[A]]#0, %arg1)
// VJP-NEXT: %[[C:.*]]:2 = call @cell.jvp.transpose(%arg2, %[[A]]#0, %arg1, %[[B]]#1)
// VJP-NEXT: %[[D:.*]]:2 = call @cell.jvp.transpose(%[[C]]#0, %arg0, %arg1, %[[A]]#1)
// VJP-NEXT: %[[W:.*]] = stablehlo.add %[[C]]#1, %[[D]]#1
// VJP-NEXT: return %[[B]]#0, %[[D]]#0, %[[W]]
func.func private @cell(%a: tensor<f64>, %w: tensor<f64>) -> tensor<f64> attributes {no_inline} {
  %0 = stablehlo.multiply %a, %w : tensor<f64>
  %1 = stablehlo.sine %0 : tensor<f64>
  return %1 : tensor<f64>
}
func.func @main(%x: tensor<f64> {tidu.name = "x"}, %w: tensor<f64> {tidu.name = "w"}) -> tensor<f64> {
  %0 = call @cell(%x, %w) : (tensor<f64>, tensor<f64>) -> tensor<f64>
  %1 = call @cell(%0, %w) : (tensor<f64>, tensor<f64>) -> tensor<f64>
  return %1 : tensor<f64>
}
