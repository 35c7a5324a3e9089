// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// ds = i s Im(conj(s) dx) / |x|, and 0 at 0.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[V0:.*]] = stablehlo.sign %arg0
// JVP-NEXT:    %[[V1:.*]] = stablehlo.abs %arg0 : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.compare EQ, %[[V1]], %[[CST]]
// JVP-NEXT:    %[[V3:.*]] = stablehlo.select %[[V2]], %[[CST_0]], %[[V1]]
// JVP-NEXT:    %[[V4:.*]] = chlo.conj %[[V0]]
// JVP-NEXT:    %[[V5:.*]] = stablehlo.multiply %[[V4]], %arg1
// JVP-NEXT:    %[[V6:.*]] = stablehlo.imag %[[V5]] : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
// JVP-NEXT:    %[[V7:.*]] = stablehlo.divide %[[V6]], %[[V3]]
// JVP-NEXT:    %[[V8:.*]] = stablehlo.complex %[[CST]], %[[V7]]
// JVP-NEXT:    %[[V9:.*]] = stablehlo.multiply %[[V0]], %[[V8]]
// JVP-NEXT:    return %[[V0]], %[[V9]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.sign %arg0
// VJP-NEXT:    %[[V1:.*]] = stablehlo.abs %arg0 : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.compare EQ, %[[V1]], %[[CST]]
// VJP-NEXT:    %[[V3:.*]] = stablehlo.select %[[V2]], %[[CST_0]], %[[V1]]
// VJP-NEXT:    %[[V4:.*]] = chlo.conj %[[V0]]
// VJP-NEXT:    %[[V5:.*]] = stablehlo.multiply %[[V4]], %arg1
// VJP-NEXT:    %[[V6:.*]] = stablehlo.imag %[[V5]] : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.divide %[[V6]], %[[V3]]
// VJP-NEXT:    %[[V8:.*]] = stablehlo.complex %[[CST]], %[[V7]]
// VJP-NEXT:    %[[V9:.*]] = stablehlo.multiply %[[V0]], %[[V8]]
// VJP-NEXT:    return %[[V0]], %[[V9]]

func.func @main(%x: tensor<3xcomplex<f64>>) -> tensor<3xcomplex<f64>> {
  %0 = stablehlo.sign %x : tensor<3xcomplex<f64>>
  return %0 : tensor<3xcomplex<f64>>
}
