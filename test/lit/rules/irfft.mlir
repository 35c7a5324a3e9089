// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// The transpose is RFFT of the cotangent, doubled at points that also represent their conjugates.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = stablehlo.fft %arg0, type = IRFFT, length = [6] : (tensor<2x4xcomplex<f64>>) -> tensor<2x6xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.fft %arg1, type = IRFFT, length = [6] : (tensor<2x4xcomplex<f64>>) -> tensor<2x6xf64>
// JVP-NEXT:    return %[[V0]], %[[V1]] : tensor<2x6xf64>, tensor<2x6xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<(0.16666666666666666,0.000000e+00)> : tensor<2x4xcomplex<f64>>
// VJP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<(2.000000e+00,0.000000e+00)> : tensor<2xcomplex<f64>>
// VJP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<(1.000000e+00,0.000000e+00)> : tensor<complex<f64>>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.fft %arg0, type = IRFFT, length = [6] : (tensor<2x4xcomplex<f64>>) -> tensor<2x6xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.fft %arg1, type = RFFT, length = [6] : (tensor<2x6xf64>) -> tensor<2x4xcomplex<f64>>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.pad %[[CST_0]], %[[CST_1]], low = [1], high = [1], interior = [0] : (tensor<2xcomplex<f64>>, tensor<complex<f64>>) -> tensor<4xcomplex<f64>>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.broadcast_in_dim %[[V2]], dims = [1] : (tensor<4xcomplex<f64>>) -> tensor<2x4xcomplex<f64>>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.multiply %[[V3]], %[[CST]] : tensor<2x4xcomplex<f64>>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.multiply %[[V4]], %[[V1]] : tensor<2x4xcomplex<f64>>
// VJP-NEXT:    return %[[V0]], %[[V5]] : tensor<2x6xf64>, tensor<2x4xcomplex<f64>>

func.func @main(%x: tensor<2x4xcomplex<f64>>) -> tensor<2x6xf64> {
  %0 = stablehlo.fft %x, type = IRFFT, length = [6] : (tensor<2x4xcomplex<f64>>) -> tensor<2x6xf64>
  return %0 : tensor<2x6xf64>
}
