// RUN: tiduc opt %s --pass-pipeline='tidu-loops-by-count' | filecheck %s --check-prefix COUNT
// RUN: tiduc opt %s --pass-pipeline='tidu-loops-by-count,tidu-carries-in-place' | filecheck %s

// A loop that counts down from 299 to 0 is rewritten to count from zero.

// COUNT:      %[[N:.*]] = stablehlo.constant dense<300> : tensor<i32>
// COUNT:      stablehlo.while(%[[T:[^ ]+]] = %{{[^,]+}}, %{{[^,]+}} = %arg0, %{{[^,]+}} = %arg1) : tensor<i32>, tensor<2048xf32>, tensor<300x2048xf32>
// COUNT:      stablehlo.compare LT, %[[T]], %[[N]]
// COUNT:      %[[K:.*]] = stablehlo.convert %[[T]]
// COUNT:      %[[LAST:.*]] = stablehlo.constant dense<299>
// COUNT:      %[[I:.*]] = stablehlo.subtract %[[LAST]], %[[K]]
// COUNT:      dynamic_update_slice %{{.*}}, %{{.*}}, %[[I]],

// The loop owns the array whose rows it updates, and IREE knows that it need not copy the array.

// CHECK:      module attributes {stream.topology = #hal.device.topology<{{.*}}unified_memory = true
// CHECK:      %[[HIDDEN:.*]] = stablehlo.optimization_barrier {tidu.hidden} %{{.*}} : tensor<i32>
// CHECK:      %[[NUMBERS:.*]] = stablehlo.broadcast_in_dim %[[HIDDEN]], dims = []
// CHECK:      %[[POSITIVE:.*]] = stablehlo.compare GE, %[[NUMBERS]],
// CHECK:      %[[OWN:.*]] = stablehlo.select %[[POSITIVE]], %arg1,
// CHECK:      stablehlo.while({{.*}} = %[[OWN]])
// CHECK:      stablehlo.dynamic_update_slice {{.*}} -> tensor<300x2048xf32>
func.func @main(%x: tensor<2048xf32>, %s: tensor<300x2048xf32>) -> tensor<300x2048xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i64>
  %one = stablehlo.constant dense<1> : tensor<i64>
  %last = stablehlo.constant dense<299> : tensor<i64>
  %r:3 = stablehlo.while(%i = %last, %y = %x, %t = %s) : tensor<i64>, tensor<2048xf32>, tensor<300x2048xf32>
  cond {
    %c = stablehlo.compare GE, %i, %zero : (tensor<i64>, tensor<i64>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %z = stablehlo.sine %y : tensor<2048xf32>
    %row = stablehlo.reshape %z : (tensor<2048xf32>) -> tensor<1x2048xf32>
    %u = stablehlo.dynamic_update_slice %t, %row, %i, %zero
      : (tensor<300x2048xf32>, tensor<1x2048xf32>, tensor<i64>, tensor<i64>) -> tensor<300x2048xf32>
    %j = stablehlo.subtract %i, %one : tensor<i64>
    stablehlo.return %j, %z, %u : tensor<i64>, tensor<2048xf32>, tensor<300x2048xf32>
  }
  return %r#2 : tensor<300x2048xf32>
}
