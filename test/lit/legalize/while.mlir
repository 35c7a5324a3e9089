// RUN: tiduc opt %s --pass-pipeline='tidu-legalize-for-iree' | filecheck %s

// The condition reads %k but the body does not, so a barrier in the body reads %k.

// CHECK:      do {
// CHECK:        %[[B:.*]]:2 = stablehlo.optimization_barrier %{{.*}}, %{{.*}} : tensor<i32>, tensor<i32>
// CHECK-NEXT:   stablehlo.return %{{.*}}, %[[B]]#0
func.func @main(%n: tensor<i32>, %m: tensor<i32>) -> tensor<i32> {
  %0:2 = stablehlo.while(%i = %m, %k = %n) : tensor<i32>, tensor<i32>
    cond {
      %c = stablehlo.compare LT, %i, %k : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %j = stablehlo.add %i, %n : tensor<i32>
      stablehlo.return %j, %i : tensor<i32>, tensor<i32>
    }
  return %0#1 : tensor<i32>
}
