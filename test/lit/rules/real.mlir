// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// The op is linear. The transpose gives ct + 0i.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = stablehlo.real %arg0 : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.real %arg1 : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
// JVP-NEXT:    return %[[V0]], %[[V1]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.real %arg0 : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.complex %arg1, %[[C0]]
// VJP-NEXT:    return %[[V0]], %[[V1]]

func.func @main(%x: tensor<3xcomplex<f64>>) -> tensor<3xf64> {
  %0 = stablehlo.real %x : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
  return %0 : tensor<3xf64>
}
