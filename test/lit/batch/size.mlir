// RUN: not tiduc opt %s --pass-pipeline='tidu-import,tidu-batch' 2>&1 | filecheck %s --check-prefix=NONE
// RUN: not tiduc opt %s --pass-pipeline='tidu-import,tidu-batch{size=many}' 2>&1 | filecheck %s --check-prefix=TEXT
// RUN: not tiduc opt %s --pass-pipeline='tidu-import,tidu-batch{size=0}' 2>&1 | filecheck %s --check-prefix=ZERO

// NONE: error: tidu-batch needs the size of the batch
// TEXT: error: option 'size' of 'tidu-batch' expects a number, has 'many'
// ZERO: error: the batch size must be at least 1, not 0
func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.sine %x : tensor<f32>
  return %0 : tensor<f32>
}
