// RUN: tiduc opt %s --pass-pipeline=tidu-contract --split-input-file | filecheck %s

// The vector goes first. The sums that the chain computes stay.
// CHECK-LABEL: func.func @vector
// CHECK-SAME:    tidu.plan = [{before = 1092000 : i64, flops = 28800 : i64, products = 2 : i64}]
// CHECK:         %[[Y:.*]] = stablehlo.dot_general %arg1, %arg2, contracting_dims = [1] x [0]
// CHECK-NEXT:    %[[Z:.*]] = stablehlo.dot_general %arg0, %[[Y]], contracting_dims = [1] x [0]
// CHECK-NEXT:    return %[[Z]]
func.func @vector(%a: tensor<100x90xf64>, %b: tensor<90x60xf64>, %x: tensor<60xf64>) -> tensor<100xf64> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<100x90xf64>, tensor<90x60xf64>) -> tensor<100x60xf64>
  %1 = stablehlo.dot_general %0, %x, contracting_dims = [1] x [0] : (tensor<100x60xf64>, tensor<60xf64>) -> tensor<100xf64>
  return %1 : tensor<100xf64>
}

// -----

// Batches, and a transpose within the chain.
// CHECK-LABEL: func.func @batches
// CHECK-SAME:    tidu.plan = [{before = {{.*}}, products = 2 : i64}]
// CHECK:         stablehlo.dot_general %arg1, %arg2, batching_dims = [0] x [0], contracting_dims = [2] x [1]
// CHECK-NOT:     8x50x50
// CHECK:         return
func.func @batches(%a: tensor<8x50x4xf32>, %b: tensor<8x4x50xf32>, %c: tensor<8x50x2xf32>) -> tensor<8x50x2xf32> {
  %0 = stablehlo.dot_general %b, %a, batching_dims = [0] x [0], contracting_dims = [1] x [2]
    : (tensor<8x4x50xf32>, tensor<8x50x4xf32>) -> tensor<8x50x50xf32>
  %1 = stablehlo.transpose %0, dims = [0, 2, 1] : (tensor<8x50x50xf32>) -> tensor<8x50x50xf32>
  %2 = stablehlo.dot_general %1, %c, batching_dims = [0] x [0], contracting_dims = [2] x [1]
    : (tensor<8x50x50xf32>, tensor<8x50x2xf32>) -> tensor<8x50x2xf32>
  return %2 : tensor<8x50x2xf32>
}

// -----

// No order has fewer FLOPs.
// CHECK-LABEL: func.func @right
// CHECK-NOT:     tidu.plan
// CHECK:         stablehlo.dot_general %arg1, %arg2
func.func @right(%a: tensor<9x9xf64>, %b: tensor<9x9xf64>, %x: tensor<9xf64>) -> tensor<9xf64> {
  %0 = stablehlo.dot_general %b, %x, contracting_dims = [1] x [0] : (tensor<9x9xf64>, tensor<9xf64>) -> tensor<9xf64>
  %1 = stablehlo.dot_general %a, %0, contracting_dims = [1] x [0] : (tensor<9x9xf64>, tensor<9xf64>) -> tensor<9xf64>
  return %1 : tensor<9xf64>
}

// -----

// Another op reads the inner product; its precision differs; its sizes are dynamic; it is outside of a loop.
// CHECK-LABEL: func.func @read
// CHECK-NOT:     tidu.plan
// CHECK-LABEL: func.func @precise
// CHECK-NOT:     tidu.plan
// CHECK-LABEL: func.func @dynamic
// CHECK-NOT:     tidu.plan
// CHECK-LABEL: func.func @loop
// CHECK-NOT:     tidu.plan
func.func @read(%a: tensor<9x9xf64>, %b: tensor<9x9xf64>, %x: tensor<9xf64>) -> (tensor<9xf64>, tensor<9x9xf64>) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<9x9xf64>, tensor<9x9xf64>) -> tensor<9x9xf64>
  %1 = stablehlo.dot_general %0, %x, contracting_dims = [1] x [0] : (tensor<9x9xf64>, tensor<9xf64>) -> tensor<9xf64>
  return %1, %0 : tensor<9xf64>, tensor<9x9xf64>
}
func.func @precise(%a: tensor<9x9xf64>, %b: tensor<9x9xf64>, %x: tensor<9xf64>) -> tensor<9xf64> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0], precision = [HIGHEST, HIGHEST] : (tensor<9x9xf64>, tensor<9x9xf64>) -> tensor<9x9xf64>
  %1 = stablehlo.dot_general %0, %x, contracting_dims = [1] x [0] : (tensor<9x9xf64>, tensor<9xf64>) -> tensor<9xf64>
  return %1 : tensor<9xf64>
}
func.func @dynamic(%a: tensor<?x9xf64>, %b: tensor<9x9xf64>, %x: tensor<9xf64>) -> tensor<?xf64> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<?x9xf64>, tensor<9x9xf64>) -> tensor<?x9xf64>
  %1 = stablehlo.dot_general %0, %x, contracting_dims = [1] x [0] : (tensor<?x9xf64>, tensor<9xf64>) -> tensor<?xf64>
  return %1 : tensor<?xf64>
}
func.func @loop(%a: tensor<9x9xf64>, %b: tensor<9x9xf64>, %x: tensor<9xf64>) -> tensor<9xf64> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<9x9xf64>, tensor<9x9xf64>) -> tensor<9x9xf64>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<9> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<9xf64>
  cond {
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %j = stablehlo.add %i, %one : tensor<i32>
    %1 = stablehlo.dot_general %0, %y, contracting_dims = [1] x [0] : (tensor<9x9xf64>, tensor<9xf64>) -> tensor<9xf64>
    stablehlo.return %j, %1 : tensor<i32>, tensor<9xf64>
  }
  return %r#1 : tensor<9xf64>
}
