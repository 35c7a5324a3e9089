// RUN: tiduc opt %s --pass-pipeline='tidu-legalize-for-iree{cpu=false}' | filecheck %s
// RUN: tiduc opt %s --pass-pipeline='tidu-legalize-for-iree' | filecheck %s --check-prefix=CPU

// A factorization is one loop over columns, and a step of it works on whole matrices. For CPUs LU, Cholesky, and solves
// with triangular matrices, are kernels: one dispatch, with loops over elements.

// CPU-LABEL:   @lu
// CPU-NOT:     stablehlo.while
// CPU:         %[[X:.*]] = stablehlo.optimization_barrier
// CPU:         "flow.dispatch.region"
// CPU:           tensor.extract %[[X]]
// CPU:           scf.for
// CPU:             math.absf
// CPU:             arith.divf
// CPU-NOT:     stablehlo.while

// CHECK-LABEL: @lu
// CHECK-NOT:   custom_call
// CHECK:       %[[LU:.*]]:4 = stablehlo.while({{.*}} = %arg0,
// CHECK:         stablehlo.reduce({{.*}} applies stablehlo.maximum across dimensions = [1] : (tensor<2x5xf64>
// CHECK:         stablehlo.multiply {{.*}} : tensor<2x5x3xf64>
// CHECK:         stablehlo.subtract {{.*}} : tensor<2x5x3xf64>
// CHECK-NOT:   stablehlo.while
// CHECK:       return %[[LU]]#1
func.func @lu(%x: tensor<2x5x3xf64>) -> tensor<2x5x3xf64> {
  %0:3 = stablehlo.custom_call @lapack_dgetrf_ffi(%x) {mhlo.backend_config = {}}
    : (tensor<2x5x3xf64>) -> (tensor<2x5x3xf64>, tensor<2x3xi32>, tensor<2xi32>)
  return %0#0 : tensor<2x5x3xf64>
}

// The matrix is read as it lies, whatever the kind of solve.

// CPU-LABEL:   @solve
// CPU-NOT:     stablehlo.transpose
// CPU:         "flow.dispatch.region"
// CPU-NOT:     stablehlo.while

// CHECK-LABEL: @solve
// CHECK:       stablehlo.reverse
// CHECK:       stablehlo.while
func.func @solve(%a: tensor<4x4xf64>, %y: tensor<4x2xf64>) -> tensor<4x2xf64> {
  %0 = "stablehlo.triangular_solve"(%a, %y) <{left_side = true, lower = true, unit_diagonal = false,
    transpose_a = #stablehlo<transpose TRANSPOSE>}> : (tensor<4x4xf64>, tensor<4x2xf64>) -> tensor<4x2xf64>
  return %0 : tensor<4x2xf64>
}

// Large ones are done in blocks, each of which has a loop.

// CPU-LABEL:   @blocks
// CPU-NOT:     stablehlo.while
// CPU:         "flow.dispatch.region"
// CPU:           math.sqrt
// CPU-NOT:     stablehlo.while
// CHECK-LABEL: @blocks
// CHECK:       stablehlo.while
// CHECK:         stablehlo.dot_general {{.*}} : (tensor<1x128x128xf32>, tensor<1x128x32xf32>) -> tensor<1x128x32xf32>
// CHECK:         stablehlo.while
// CHECK:           stablehlo.sqrt {{.*}} : tensor<1x1x1xf32>
// CHECK:       stablehlo.slice {{.*}} [0:1, 0:100, 0:100]
func.func @blocks(%x: tensor<100x100xf32>) -> tensor<100x100xf32> {
  %0 = stablehlo.cholesky %x, lower = true : tensor<100x100xf32>
  return %0 : tensor<100x100xf32>
}

// The QR algorithm is a kernel as well, in which each matrix of a batch has its own sweeps; otherwise it is Jacobi's, and
// the sweeps of all are one loop, with a loop over rounds in it.

// CPU-LABEL:   @eigh
// CPU-NOT:     stablehlo.while
// CPU:         "flow.dispatch.region"
// CPU:           scf.for
// CPU:             math.sqrt
// CPU-NOT:     stablehlo.while

// CHECK-LABEL: @eigh
// CHECK:       stablehlo.while
// CHECK:         stablehlo.while
func.func @eigh(%x: tensor<2x4x4xf32>) -> (tensor<2x4x4xf32>, tensor<2x4xf32>) {
  %0:3 = stablehlo.custom_call @lapack_ssyevd_ffi(%x) {mhlo.backend_config = {mode = 86 : ui8, uplo = 76 : ui8}}
    : (tensor<2x4x4xf32>) -> (tensor<2x4x4xf32>, tensor<2x4xf32>, tensor<2xi32>)
  return %0#0, %0#1 : tensor<2x4x4xf32>, tensor<2x4xf32>
}

// Vectors that are not asked for are not computed.

// CPU-LABEL:   @values
// CPU-NOT:     stablehlo.while
// CPU:         "flow.dispatch.region"
// CPU-NOT:     stablehlo.while
// CHECK-LABEL: @values
// CHECK:       stablehlo.while({{.*}}) : tensor<i32>, tensor<1xf32>, tensor<1x3x4xf32>
// CHECK:       stablehlo.while({{.*}}) : tensor<i32>, tensor<1x3x4xf32>
func.func @values(%x: tensor<4x3xf32>) -> tensor<3xf32> {
  %0:5 = stablehlo.custom_call @lapack_sgesdd_ffi(%x) {mhlo.backend_config = {mode = 78 : ui8}} : (tensor<4x3xf32>)
    -> (tensor<4x3xf32>, tensor<3xf32>, tensor<4x3xf32>, tensor<3x3xf32>, tensor<i32>)
  return %0#1 : tensor<3xf32>
}
