// RUN: tiduc opt %s --pass-pipeline='tidu-legalize-for-iree{cpu=false}' | filecheck %s
// RUN: tiduc opt %s --pass-pipeline='tidu-legalize-for-iree' | filecheck %s

// On all targets, a factorization or solve is one dispatch with loops over elements.

// CHECK-LABEL: @lu
// CHECK-NOT:   stablehlo.while
// CHECK:       %[[X:.*]] = stablehlo.optimization_barrier
// CHECK:       "flow.dispatch.region"
// CHECK:         tensor.extract %[[X]]
// CHECK:         scf.for
// CHECK:           math.absf
// CHECK:           arith.divf
// CHECK-NOT:   stablehlo.while
func.func @lu(%x: tensor<2x5x3xf64>) -> tensor<2x5x3xf64> {
  %0:3 = stablehlo.custom_call @lapack_dgetrf_ffi(%x) {mhlo.backend_config = {}}
    : (tensor<2x5x3xf64>) -> (tensor<2x5x3xf64>, tensor<2x3xi32>, tensor<2xi32>)
  return %0#0 : tensor<2x5x3xf64>
}

// The matrix is read in place, without a transposed copy, for each kind of solve.

// CHECK-LABEL: @solve
// CHECK-NOT:   stablehlo.transpose
// CHECK:       "flow.dispatch.region"
// CHECK-NOT:   stablehlo.while
func.func @solve(%a: tensor<4x4xf64>, %y: tensor<4x2xf64>) -> tensor<4x2xf64> {
  %0 = "stablehlo.triangular_solve"(%a, %y) <{left_side = true, lower = true, unit_diagonal = false,
    transpose_a = #stablehlo<transpose TRANSPOSE>}> : (tensor<4x4xf64>, tensor<4x2xf64>) -> tensor<4x2xf64>
  return %0 : tensor<4x2xf64>
}

// The emitted code does not grow with the matrix.

// CHECK-LABEL: @blocks
// CHECK-NOT:   stablehlo.while
// CHECK:       "flow.dispatch.region"
// CHECK:         math.sqrt
// CHECK-NOT:   stablehlo.while
func.func @blocks(%x: tensor<100x100xf32>) -> tensor<100x100xf32> {
  %0 = stablehlo.cholesky %x, lower = true : tensor<100x100xf32>
  return %0 : tensor<100x100xf32>
}

// Each matrix of a batch has its own sweeps of the QR algorithm.

// CHECK-LABEL: @eigh
// CHECK-NOT:   stablehlo.while
// CHECK:       "flow.dispatch.region"
// CHECK:         scf.for
// CHECK:           math.sqrt
// CHECK-NOT:   stablehlo.while
func.func @eigh(%x: tensor<2x4x4xf32>) -> (tensor<2x4x4xf32>, tensor<2x4xf32>) {
  %0:3 = stablehlo.custom_call @lapack_ssyevd_ffi(%x) {mhlo.backend_config = {mode = 86 : ui8, uplo = 76 : ui8}}
    : (tensor<2x4x4xf32>) -> (tensor<2x4x4xf32>, tensor<2x4xf32>, tensor<2xi32>)
  return %0#0, %0#1 : tensor<2x4x4xf32>, tensor<2x4xf32>
}

// Singular vectors are computed only if they are requested.

// CHECK-LABEL: @values
// CHECK-NOT:   stablehlo.while
// CHECK:       "flow.dispatch.region"
// CHECK-NOT:   stablehlo.while
func.func @values(%x: tensor<4x3xf32>) -> tensor<3xf32> {
  %0:5 = stablehlo.custom_call @lapack_sgesdd_ffi(%x) {mhlo.backend_config = {mode = 78 : ui8}} : (tensor<4x3xf32>)
    -> (tensor<4x3xf32>, tensor<3xf32>, tensor<4x3xf32>, tensor<3x3xf32>, tensor<i32>)
  return %0#1 : tensor<3xf32>
}
