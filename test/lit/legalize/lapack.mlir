// RUN: tiduc opt %s --pass-pipeline='tidu-legalize-for-iree{lapack=callback}' | filecheck %s
// RUN: not tiduc opt %s --pass-pipeline='tidu-legalize-for-iree{lapack=callback cpu=false}' 2>&1 | filecheck %s --check-prefix=GPU

// GPU: error: only code for CPUs can call LAPACK on the host

// The host factorizes a batch of matrices, with one function for each element type.

// CHECK-LABEL: @main
// CHECK:       %[[X:.*]] = tensor.cast %arg0 : tensor<2x4x4xf64> to tensor<?x?x?xf64>
// CHECK:       %[[L:.*]] = call @tiduc_lapack.cholesky_f64(%[[X]]) : (tensor<?x?x?xf64>) -> tensor<?x?x?xf64>
// CHECK:       tensor.cast %[[L]] : tensor<?x?x?xf64> to tensor<2x4x4xf64>
// CHECK:       call @tiduc_lapack.cholesky_f64
// CHECK-NOT:   stablehlo.while
func.func @main(%x: tensor<2x4x4xf64>) -> (tensor<2x4x4xf64>, tensor<2x4x4xf64>) {
  %0 = stablehlo.cholesky %x, lower = true : tensor<2x4x4xf64>
  %1 = stablehlo.cholesky %x, lower = false : tensor<2x4x4xf64>
  return %0, %1 : tensor<2x4x4xf64>, tensor<2x4x4xf64>
}

// Singular vectors are computed only if they are requested.

// CHECK-LABEL: @values
// CHECK:       call @tiduc_lapack.svdvals_c64
// CHECK-SAME:    (tensor<?x?x?xcomplex<f32>>) -> (tensor<?x?xf32>, tensor<?xi32>)
func.func @values(%x: tensor<4x3xcomplex<f32>>) -> tensor<3xf32> {
  %0:5 = stablehlo.custom_call @lapack_cgesdd_ffi(%x) {mhlo.backend_config = {mode = 78 : ui8}}
    : (tensor<4x3xcomplex<f32>>)
    -> (tensor<4x3xcomplex<f32>>, tensor<3xf32>, tensor<4x3xcomplex<f32>>, tensor<3x3xcomplex<f32>>, tensor<i32>)
  return %0#1 : tensor<3xf32>
}

// Routines that NumPy lacks are legalized as without the callback.

// CHECK-LABEL: @lu
// CHECK-NOT:   call
// CHECK:       flow.dispatch.region
func.func @lu(%x: tensor<5x3xf64>) -> tensor<5x3xf64> {
  %0:3 = stablehlo.custom_call @lapack_dgetrf_ffi(%x) {mhlo.backend_config = {}}
    : (tensor<5x3xf64>) -> (tensor<5x3xf64>, tensor<3xi32>, tensor<i32>)
  return %0#0 : tensor<5x3xf64>
}

// CHECK:     func.func private @tiduc_lapack.cholesky_f64(tensor<?x?x?xf64>) -> tensor<?x?x?xf64>
// CHECK-NOT: private @tiduc_lapack.cholesky_f64
