// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// dy = Re(conj(sign(x)) dx); transposed: sign(x) ct.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = stablehlo.abs %arg0 : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.sign %arg0
// JVP-NEXT:    %[[V2:.*]] = stablehlo.imag %[[V1]] : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.negate %[[V2]]
// JVP-NEXT:    %[[V4:.*]] = stablehlo.real %[[V1]] : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
// JVP-NEXT:    %[[V5:.*]] = stablehlo.complex %[[V4]], %[[V3]]
// JVP-NEXT:    %[[V6:.*]] = stablehlo.multiply %[[V5]], %arg1
// JVP-NEXT:    %[[V7:.*]] = stablehlo.real %[[V6]] : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
// JVP-NEXT:    return %[[V0]], %[[V7]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.abs %arg0 : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.complex %arg1, %[[C0]]
// VJP-NEXT:    %[[V2:.*]] = stablehlo.sign %arg0
// VJP-NEXT:    %[[V3:.*]] = stablehlo.multiply %[[V2]], %[[V1]]
// VJP-NEXT:    return %[[V0]], %[[V3]]

func.func @main(%x: tensor<3xcomplex<f64>>) -> tensor<3xf64> {
  %0 = stablehlo.abs %x : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
  return %0 : tensor<3xf64>
}
