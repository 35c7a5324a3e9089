// RUN: tiduc vjp %s | filecheck %s

// The cotangent of a branch is masked only after its elementwise ops, because 0 times the slope of the
// logarithm is NaN at 0. One select then serves both branches.

// CHECK-LABEL: func.func @main
// CHECK:         %[[P:.*]] = stablehlo.compare GT, %arg0
// CHECK:         %[[Y:.*]] = stablehlo.select %[[P]]
// CHECK-DAG:     %[[D:.*]] = stablehlo.divide %arg1, %arg0
// CHECK-DAG:     %[[N:.*]] = stablehlo.negate %arg1
// CHECK:         %[[DX:.*]] = stablehlo.select %[[P]], %[[D]], %[[N]]
// CHECK-NEXT:    return %[[Y]], %[[DX]]
func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {
  %zero = stablehlo.constant dense<0.0> : tensor<3xf64>
  %p = stablehlo.compare GT, %x, %zero : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
  %log = stablehlo.log %x : tensor<3xf64>
  %negated = stablehlo.negate %x : tensor<3xf64>
  %y = stablehlo.select %p, %log, %negated : tensor<3xi1>, tensor<3xf64>
  return %y : tensor<3xf64>
}
