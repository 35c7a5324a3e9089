// RUN: tiduc opt %s --pass-pipeline=tidu-import,tidu-linearize | filecheck %s --check-prefix=LIN
// RUN: tiduc opt %s --pass-pipeline=tidu-import,tidu-linearize,tidu-linear-transpose | filecheck %s --check-prefix=TRN
// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// The linear loop reads a residual in each iteration. Fused with the primal loop, it needs no stack. The reverse loop needs one.

// LIN:      sym_name = "B.primal0"
// LIN:      sym_name = "B.jvp0"
// LIN:      %[[R:.*]]:4 = stablehlo.custom_call @tidu.loop({{.*}}) {called_computations = [@B.primal0, @C0], tidu.base = @B0
// LIN-SAME:   tidu.carries = 2 : i64, tidu.sequences = 0 : i64, tidu.trip_count = 3 : i64}
// LIN-SAME:   -> (tensor<i32>, tensor<f64>, tensor<3xf64>, tensor<3xf64>)
// LIN-NEXT: stablehlo.custom_call @tidu.loop(%arg0, %[[R]]#2, %[[R]]#3, %arg1, {{.*}}) {called_computations = [@B.jvp0]
// LIN-SAME:   tidu.active = array<i1: true, false, false, true, false>, tidu.carries = 1 : i64, tidu.sequences = 2 : i64}

// TRN:      stablehlo.custom_call @tidu.loop(%arg0, {{.*}}) {called_computations = [@B.jvp.transpose0]
// TRN-SAME:   tidu.active = array<i1: true, false, false, false, false>, tidu.carries = 2 : i64, tidu.reverse, tidu.sequences = 2

// JVP:      stablehlo.while({{.*}}) : tensor<i32>, tensor<f64>, tensor<f64>
// JVP-NOT:  dynamic_update_slice
// JVP:        stablehlo.cosine
// JVP-NOT:  stablehlo.while

// VJP:      %[[P:.*]]:5 = stablehlo.while({{.*}}) : {{.*}}tensor<3xf64>, tensor<3xf64>
// VJP:      } do {
// VJP:        stablehlo.cosine
// VJP:        stablehlo.dynamic_update_slice
// VJP:        stablehlo.dynamic_update_slice
// VJP:      stablehlo.while(%[[I:.*]] = %{{.*}}, %[[C:.*]] = %arg2, %[[W:.*]] = %cst{{.*}})
// VJP:        stablehlo.compare GE, %[[I]]
// VJP:        stablehlo.subtract %[[I]]
// VJP:        stablehlo.dynamic_slice
// VJP:        stablehlo.multiply %{{.*}}, %[[C]]
// VJP-NOT:  stablehlo.while
func.func @main(%x: tensor<f64> {tidu.name = "x"}, %w: tensor<f64> {tidu.name = "w"}) -> tensor<f64> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<f64> cond {
    %limit = stablehlo.constant dense<3> : tensor<i32>
    %p = stablehlo.compare LT, %i, %limit : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %n = stablehlo.add %i, %one : tensor<i32>
    %s = stablehlo.multiply %a, %w : tensor<f64>
    %t = stablehlo.sine %s : tensor<f64>
    stablehlo.return %n, %t : tensor<i32>, tensor<f64>
  }
  return %r#1 : tensor<f64>
}
