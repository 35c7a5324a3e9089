// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// Tangents are broadcast, then follow the rule of stablehlo.complex; cotangents are summed.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = chlo.broadcast_complex %arg0, %arg1 : (tensor<f64>, tensor<3xf64>) -> tensor<3xcomplex<f64>>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f64>) -> tensor<3xf64>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.complex %[[V1]], %arg3
// JVP-NEXT:    return %[[V0]], %[[V2]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[V0:.*]] = chlo.broadcast_complex %arg0, %arg1 : (tensor<f64>, tensor<3xf64>) -> tensor<3xcomplex<f64>>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.real %arg2 : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.reduce(%[[V1]] init: %[[C0]]) applies stablehlo.add across dimensions = [0] : (tensor<3xf64>, tensor<f64>) -> tensor<f64>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.imag %arg2 : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
// VJP-NEXT:    return %[[V0]], %[[V2]], %[[V3]]

func.func @main(%x: tensor<f64>, %y: tensor<3xf64>) -> tensor<3xcomplex<f64>> {
  %0 = chlo.broadcast_complex %x, %y : (tensor<f64>, tensor<3xf64>) -> tensor<3xcomplex<f64>>
  return %0 : tensor<3xcomplex<f64>>
}
