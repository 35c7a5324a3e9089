// RUN: tiduc vjp %s --wrt 1 | filecheck %s --check-prefix=OURS
// RUN: tiduc vjp %s --wrt 1 --conjugate --stop-after linear_transpose | tiduc opt - | filecheck %s --check-prefix=JAX

// tiduc's cotangent is the adjoint under Re(conj(a) b): conj(c) ct. JAX's is c ct, here conj(conj(c) conj(ct)).

// OURS:       chlo.conj %arg0
// OURS-NOT:   chlo.conj
// OURS:       stablehlo.multiply
// JAX:        sym_name = "C0"
// JAX:        "tidu.external"() {ref = @T0::@v0}
// JAX:        sym_name = "C1"
// JAX:        "tidu.bind"() {input = @T0.v0, value = @C0::@v0}
func.func @main(%c: tensor<complex<f64>>, %z: tensor<complex<f64>>) -> tensor<complex<f64>> {
  %0 = stablehlo.multiply %c, %z : tensor<complex<f64>>
  return %0 : tensor<complex<f64>>
}
