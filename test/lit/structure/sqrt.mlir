// RUN: tiduc grad %s --loop-memory sqrt | filecheck %s

// Every tenth of 100 carried values is kept; the reverse recomputes ten iterations at a time and stacks their residuals.

// CHECK:      %[[FIRST:.*]]:4 = stablehlo.while({{.*}}) : tensor<i32>, tensor<i32>, tensor<f64>, tensor<11xf64>
// CHECK:        stablehlo.sine
// CHECK-NOT:    stablehlo.cosine
// CHECK:        stablehlo.dynamic_update_slice {{.*}} -> tensor<11xf64>
// CHECK:      stablehlo.while({{.*}}) : tensor<i32>, tensor<f64>
// CHECK:        stablehlo.compare GE
// CHECK:        stablehlo.dynamic_slice %[[FIRST]]#3
// CHECK:        %[[AGAIN:.*]]:3 = stablehlo.while({{.*}}) : tensor<i32>, tensor<f64>, tensor<10xf64>
// CHECK:          stablehlo.sine
// CHECK:          %[[SLOPE:.*]] = stablehlo.cosine
// CHECK:          stablehlo.dynamic_update_slice {{.*}} -> tensor<10xf64>
// CHECK:        stablehlo.while({{.*}}) : tensor<i32>, tensor<f64>
// CHECK:          stablehlo.compare GE
// CHECK:          stablehlo.dynamic_slice %[[AGAIN]]#2
// CHECK-NOT:      stablehlo.cosine
// CHECK:          stablehlo.multiply
// CHECK-NOT:  stablehlo.while

func.func @main(%x: tensor<f64> {tidu.name = "x"}) -> tensor<f64> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<f64> cond {
    %limit = stablehlo.constant dense<100> : tensor<i32>
    %p = stablehlo.compare LT, %i, %limit : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %n = stablehlo.add %i, %one : tensor<i32>
    %t = stablehlo.sine %a : tensor<f64>
    stablehlo.return %n, %t : tensor<i32>, tensor<f64>
  }
  return %r#1 : tensor<f64>
}
