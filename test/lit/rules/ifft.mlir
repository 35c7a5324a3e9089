// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// The transform of the tangent. The transpose transforms the cotangent, and divides by the number of points.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = stablehlo.fft %arg0, type = IFFT, length = [3] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.fft %arg1, type = IFFT, length = [3] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// JVP-NEXT:    return %[[V0]], %[[V1]] : tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<(0.33333333333333331,0.000000e+00)> : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.fft %arg0, type = IFFT, length = [3] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.fft %arg1, type = FFT, length = [3] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.multiply %[[V1]], %[[CST]] : tensor<3x3xcomplex<f64>>
// VJP-NEXT:    return %[[V0]], %[[V2]] : tensor<3x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>

func.func @main(%x: tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>> {
  %0 = stablehlo.fft %x, type = IFFT, length = [3] : (tensor<3x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
  return %0 : tensor<3x3xcomplex<f64>>
}
