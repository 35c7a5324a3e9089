// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// The op is linear over the reals. The transpose is the conjugate.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = chlo.conj %arg0
// JVP-NEXT:    %[[V1:.*]] = chlo.conj %arg1
// JVP-NEXT:    return %[[V0]], %[[V1]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[V0:.*]] = chlo.conj %arg0
// VJP-NEXT:    %[[V1:.*]] = chlo.conj %arg1
// VJP-NEXT:    return %[[V0]], %[[V1]]

func.func @main(%x: tensor<3xcomplex<f64>>) -> tensor<3xcomplex<f64>> {
  %0 = chlo.conj %x : tensor<3xcomplex<f64>> -> tensor<3xcomplex<f64>>
  return %0 : tensor<3xcomplex<f64>>
}
