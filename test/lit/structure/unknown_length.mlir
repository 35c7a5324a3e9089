// RUN: tiduc grad %s --wrt x | filecheck %s
// RUN: tiduc grad %s --wrt x --loop-memory stack | filecheck %s

// The loop counts its iterations, because the trip count is unknown before it ends. The reverse loop recomputes iterations
// from checkpoints.

// CHECK:      %[[P:.*]] = stablehlo.while({{.*}}) : tensor<i32>, tensor<f64>
// CHECK:        stablehlo.add {{.*}} : tensor<i32>
// CHECK-NEXT:   stablehlo.sine
// CHECK-NEXT:   stablehlo.add {{.*}} : tensor<f64>
// CHECK-NEXT:   stablehlo.return
// CHECK:      %[[MARKS:.*]] = stablehlo.dynamic_update_slice {{.*}} -> tensor<34xi32>
// CHECK:      %[[SLOTS:.*]] = stablehlo.dynamic_update_slice {{.*}} -> tensor<34xf64>
// CHECK:      stablehlo.while({{.*}} = %[[MARKS]], {{.*}} = %[[SLOTS]], {{.*}})
// CHECK:        stablehlo.compare GT
// CHECK:        stablehlo.while({{.*}}) : tensor<i32>, tensor<34xi32>, tensor<34xf64>
// CHECK:          stablehlo.while({{.*}}) : tensor<i32>, tensor<f64>
// CHECK:            stablehlo.sine
// CHECK:          stablehlo.dynamic_update_slice {{.*}} -> tensor<34xf64>
// CHECK:        stablehlo.cosine
// CHECK-NOT:  stablehlo.while

func.func @main(%x: tensor<f64> {tidu.name = "x"}, %limit: tensor<f64>) -> tensor<f64> {
  %0 = stablehlo.while(%c = %x) : tensor<f64> cond {
    %1 = stablehlo.compare LT, %c, %limit : (tensor<f64>, tensor<f64>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %1 = stablehlo.sine %c : tensor<f64>
    %2 = stablehlo.add %1, %c : tensor<f64>
    stablehlo.return %2 : tensor<f64>
  }
  return %0 : tensor<f64>
}
