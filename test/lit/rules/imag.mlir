// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// The op is linear. The transpose gives 0 + ct i, since Re(conj(ct i) dx) = ct Im(dx).

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = stablehlo.imag %arg0 : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.imag %arg1 : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
// JVP-NEXT:    return %[[V0]], %[[V1]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.imag %arg0 : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.complex %[[C0]], %arg1
// VJP-NEXT:    return %[[V0]], %[[V1]]

func.func @main(%x: tensor<3xcomplex<f64>>) -> tensor<3xf64> {
  %0 = stablehlo.imag %x : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
  return %0 : tensor<3xf64>
}
