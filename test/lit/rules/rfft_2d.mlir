// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// Transposed in several dimensions: the real part of an IFFT, with zeros for the omitted points.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = stablehlo.fft %arg0, type = RFFT, length = [2, 6] : (tensor<2x6xf64>) -> tensor<2x4xcomplex<f64>>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.fft %arg1, type = RFFT, length = [2, 6] : (tensor<2x6xf64>) -> tensor<2x4xcomplex<f64>>
// JVP-NEXT:    return %[[V0]], %[[V1]] : tensor<2x4xcomplex<f64>>, tensor<2x4xcomplex<f64>>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<1.200000e+01> : tensor<2x6xf64>
// VJP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<(0.000000e+00,0.000000e+00)> : tensor<complex<f64>>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.fft %arg0, type = RFFT, length = [2, 6] : (tensor<2x6xf64>) -> tensor<2x4xcomplex<f64>>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.pad %arg1, %[[CST_0]], low = [0, 0], high = [0, 2], interior = [0, 0] : (tensor<2x4xcomplex<f64>>, tensor<complex<f64>>) -> tensor<2x6xcomplex<f64>>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.fft %[[V1]], type = IFFT, length = [2, 6] : (tensor<2x6xcomplex<f64>>) -> tensor<2x6xcomplex<f64>>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.real %[[V2]] : (tensor<2x6xcomplex<f64>>) -> tensor<2x6xf64>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.multiply %[[V3]], %[[CST]] : tensor<2x6xf64>
// VJP-NEXT:    return %[[V0]], %[[V4]] : tensor<2x4xcomplex<f64>>, tensor<2x6xf64>

func.func @main(%x: tensor<2x6xf64>) -> tensor<2x4xcomplex<f64>> {
  %0 = stablehlo.fft %x, type = RFFT, length = [2, 6] : (tensor<2x6xf64>) -> tensor<2x4xcomplex<f64>>
  return %0 : tensor<2x4xcomplex<f64>>
}
