// RUN: tiduc grad %s | filecheck %s --check-prefix=CALLS
// RUN: tiduc grad %s --inline | filecheck %s --check-prefix=INLINE
// RUN: tiduc explain %s | filecheck %s --check-prefix=KEPT
// RUN: tiduc explain %s --inline | filecheck %s --check-prefix=SMALL
// RUN: tiduc view %s --derivative jvp --inline --format txt | filecheck %s --check-prefix=VIEW

// A no_inline function with two calls is differentiated once. With --inline, no call remains.
// CALLS:      func.func @main
// CALLS:      call @{{.*}}cell
// INLINE:     func.func @main
// INLINE-NOT: call
// KEPT:       call {{ +}}f64
// SMALL:      Kept for the reverse: 2 values, 16 B
// SMALL:      subtract {{ +}}f64
// VIEW-NOT:   call
func.func @main(%x: tensor<f64>) -> tensor<f64> {
  %0 = call @cell(%x) : (tensor<f64>) -> tensor<f64>
  %1 = call @cell(%0) : (tensor<f64>) -> tensor<f64>
  return %1 : tensor<f64>
}
func.func private @cell(%x: tensor<f64>) -> tensor<f64> attributes {no_inline} {
  %0 = stablehlo.tanh %x : tensor<f64>
  return %0 : tensor<f64>
}
