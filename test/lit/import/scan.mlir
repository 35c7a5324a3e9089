// RUN: tiduc opt %s --pass-pipeline=tidu-import | filecheck %s

// A scan becomes a loop; other CHLO ops are kept.

// CHECK-LABEL: "tidu.graph"
// CHECK:       chlo.sinh
// CHECK:       stablehlo.while
// CHECK-NOT:   chlo.scan
func.func @main(%x: tensor<4x3xf64>, %s: tensor<3xf64>) -> tensor<3xf64> {
  %0 = chlo.sinh %s : tensor<3xf64> -> tensor<3xf64>
  %1:2 = chlo.scan(%x) inits(%0) dimension=0 {
  ^bb0(%a: tensor<3xf64>, %b: tensor<3xf64>):
    %2 = stablehlo.multiply %a, %b : tensor<3xf64>
    stablehlo.return %2, %2 : tensor<3xf64>, tensor<3xf64>
  } : (tensor<4x3xf64>, tensor<3xf64>) -> (tensor<4x3xf64>, tensor<3xf64>)
  return %1#1 : tensor<3xf64>
}
