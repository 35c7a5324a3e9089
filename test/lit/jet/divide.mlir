// RUN: tiduc opt %s --pass-pipeline='tidu-import,tidu-jet{order=2},tidu-materialize-merge,tidu-lower' | filecheck %s

// y = x / z solves z y = x:  y_k = (x_k - y_0 z_k - ... - y_{k-1} z_1) / z, with one division per order.

// CHECK:      func.func @main(%[[X:.*]]: tensor<f64> {{.*}}, %[[Z:.*]]: tensor<f64> {{.*}}, %[[X1:.*]]: tensor<f64> {tidu.name = "J0.x.1"}, %[[X2:.*]]: tensor<f64> {{.*}}, %[[Z1:.*]]: tensor<f64> {{.*}}, %[[Z2:.*]]: tensor<f64> {{.*}})
// CHECK-DAG:    %[[Y0:.*]] = stablehlo.divide %[[X]], %[[Z]] : tensor<f64>
// CHECK-DAG:    %[[A:.*]] = stablehlo.multiply %[[Y0]], %[[Z1]] : tensor<f64>
// CHECK-DAG:    %[[B:.*]] = stablehlo.subtract %[[X1]], %[[A]] : tensor<f64>
// CHECK-DAG:    %[[Y1:.*]] = stablehlo.divide %[[B]], %[[Z]] : tensor<f64>
// CHECK-DAG:    %[[C:.*]] = stablehlo.multiply %[[Y0]], %[[Z2]] : tensor<f64>
// CHECK-DAG:    %[[D:.*]] = stablehlo.multiply %[[Y1]], %[[Z1]] : tensor<f64>
// CHECK-DAG:    %[[E:.*]] = stablehlo.add %[[C]], %[[D]] : tensor<f64>
// CHECK-DAG:    %[[F:.*]] = stablehlo.subtract %[[X2]], %[[E]] : tensor<f64>
// CHECK-DAG:    %[[Y2:.*]] = stablehlo.divide %[[F]], %[[Z]] : tensor<f64>
// CHECK:        return %[[Y0]], %[[Y1]], %[[Y2]]
func.func @main(%x: tensor<f64> {tidu.name = "x"}, %z: tensor<f64> {tidu.name = "z"}) -> tensor<f64> {
  %0 = stablehlo.divide %x, %z : tensor<f64>
  return %0 : tensor<f64>
}
