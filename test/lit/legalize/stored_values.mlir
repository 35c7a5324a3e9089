// RUN: tiduc opt %s --pass-pipeline='tidu-stored-values' | filecheck %s

// A barrier that only prevents fusions becomes a reshape of IREE's own, and one that keeps equal ops apart a select.
// A barrier of a constant moves to the start of the function. All numbers of selects are hidden by one barrier, and are
// stored beside another one. Others stay.

// CHECK:      func.func @main
// CHECK-NEXT:   %[[C:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<f32>
// CHECK-NEXT:   %[[B:.*]] = stablehlo.optimization_barrier %[[C]] : tensor<f32>
// CHECK:        %[[N:.*]] = stablehlo.constant dense<[0, 1]> : tensor<2xi32>
// CHECK-NEXT:   %[[H:.*]]:2 = stablehlo.optimization_barrier %[[N]], %[[N]] : tensor<2xi32>, tensor<2xi32>
// CHECK-NEXT:   %[[T:.*]] = stablehlo.tanh %arg0
// CHECK-NEXT:   %[[R:.*]] = "flow.tensor.reshape"(%[[T]]) {operandSegmentSizes = array<i32: 1, 0, 0>} : (tensor<4x5xf32>) -> tensor<1x4x5xf32>
// CHECK-NEXT:   %[[S:.*]] = stablehlo.reshape %[[R]] : (tensor<1x4x5xf32>) -> tensor<4x5xf32>
// CHECK:        %[[F:.*]] = stablehlo.slice %[[H]]#1 [0:1]
// CHECK-NEXT:   %[[O:.*]] = stablehlo.reshape %[[F]] : (tensor<1xi32>) -> tensor<i32>
// CHECK-NEXT:   %[[P:.*]] = stablehlo.broadcast_in_dim %[[O]], dims = [] : (tensor<i32>) -> tensor<4x5xi32>
// CHECK:        %[[E:.*]] = stablehlo.compare GE, %[[P]]
// CHECK:        %[[D:.*]] = stablehlo.select %[[E]], %[[T]]
// CHECK:        stablehlo.slice %[[H]]#0 [0:1]
// CHECK:        %[[A:.*]] = stablehlo.select %{{.*}}, %[[T]]
// CHECK:        %[[K:.*]] = stablehlo.optimization_barrier %[[T]] : tensor<4x5xf32>
// CHECK:        return %[[B]], %[[S]], %[[D]], %[[A]], %[[K]]
func.func @main(%x: tensor<4x5xf32>) -> (tensor<f32>, tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x5xf32>) {
  %t = stablehlo.tanh %x : tensor<4x5xf32>
  %c = stablehlo.constant dense<1.0> : tensor<f32>
  %b = stablehlo.optimization_barrier %c : tensor<f32>
  %s = stablehlo.optimization_barrier {tidu.stored} %t : tensor<4x5xf32>
  %d = stablehlo.optimization_barrier {tidu.distinct} %t : tensor<4x5xf32>
  %e = stablehlo.optimization_barrier {tidu.distinct} %t : tensor<4x5xf32>
  %k = stablehlo.optimization_barrier %t : tensor<4x5xf32>
  return %b, %s, %d, %e, %k : tensor<f32>, tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x5xf32>
}
