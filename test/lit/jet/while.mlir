// RUN: tiduc opt %s --pass-pipeline='tidu-import,tidu-jet{order=1},tidu-materialize-merge,tidu-lower' | filecheck %s

// One loop carries the value and its coefficient. The condition reads only the value.

// CHECK:        %[[Y:.*]]:2 = stablehlo.while(%[[Z0:.*]] = %arg0, %[[Z1:.*]] = %arg1) : tensor<f64>, tensor<f64>
// CHECK-NEXT:   cond {
// CHECK-NEXT:     %[[C:.*]] = stablehlo.compare LT, %[[Z0]], %{{.*}} : (tensor<f64>, tensor<f64>) -> tensor<i1>
// CHECK-NEXT:     stablehlo.return %[[C]] : tensor<i1>
// CHECK-NEXT:   } do {
// CHECK-DAG:      %[[N0:.*]] = stablehlo.multiply %[[Z0]], %[[Z0]] : tensor<f64>
// CHECK-DAG:      %[[P:.*]] = stablehlo.multiply %[[Z0]], %[[Z1]] : tensor<f64>
// CHECK-DAG:      %[[N1:.*]] = stablehlo.add %[[P]], %[[P]] : tensor<f64>
// CHECK:          stablehlo.return %[[N0]], %[[N1]] : tensor<f64>, tensor<f64>
// CHECK:        return %[[Y]]#0, %[[Y]]#1
// CHECK-NOT:    stablehlo.while
func.func @main(%x: tensor<f64> {tidu.name = "x"}) -> tensor<f64> {
  %c = stablehlo.constant dense<10.0> : tensor<f64>
  %0 = stablehlo.while(%z = %x) : tensor<f64>
    cond {
      %1 = stablehlo.compare LT, %z, %c : (tensor<f64>, tensor<f64>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %1 = stablehlo.multiply %z, %z : tensor<f64>
      stablehlo.return %1 : tensor<f64>
    }
  return %0 : tensor<f64>
}
