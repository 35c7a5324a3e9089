// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// dy = Re(conj(sign(x)) dx). The transpose gives sign(x) ct.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = stablehlo.abs %arg0 : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.sign %arg0
// JVP-NEXT:    %[[V2:.*]] = chlo.conj %[[V1]]
// JVP-NEXT:    %[[V3:.*]] = stablehlo.multiply %[[V2]], %arg1
// JVP-NEXT:    %[[V4:.*]] = stablehlo.real %[[V3]] : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
// JVP-NEXT:    return %[[V0]], %[[V4]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.abs %arg0 : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.complex %arg1, %[[CST]]
// VJP-NEXT:    %[[V2:.*]] = stablehlo.sign %arg0
// VJP-NEXT:    %[[V3:.*]] = stablehlo.multiply %[[V2]], %[[V1]]
// VJP-NEXT:    return %[[V0]], %[[V3]]

func.func @main(%x: tensor<3xcomplex<f64>>) -> tensor<3xf64> {
  %0 = stablehlo.abs %x : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
  return %0 : tensor<3xf64>
}
