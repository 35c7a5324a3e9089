// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// ds = i s Im(conj(s) dx) / |x|, and 0 at 0.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[C1:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[V0:.*]] = stablehlo.sign %arg0
// JVP-NEXT:    %[[V1:.*]] = stablehlo.abs %arg0 : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.compare EQ, %[[V1]], %[[C0]] : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.select %[[V2]], %[[C1]], %[[V1]]
// JVP-NEXT:    %[[V4:.*]] = stablehlo.imag %[[V0]] : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
// JVP-NEXT:    %[[V5:.*]] = stablehlo.negate %[[V4]]
// JVP-NEXT:    %[[V6:.*]] = stablehlo.real %[[V0]] : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
// JVP-NEXT:    %[[V7:.*]] = stablehlo.complex %[[V6]], %[[V5]]
// JVP-NEXT:    %[[V8:.*]] = stablehlo.multiply %[[V7]], %arg1
// JVP-NEXT:    %[[V9:.*]] = stablehlo.imag %[[V8]] : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
// JVP-NEXT:    %[[V10:.*]] = stablehlo.divide %[[V9]], %[[V3]]
// JVP-NEXT:    %[[V11:.*]] = stablehlo.complex %[[C0]], %[[V10]]
// JVP-NEXT:    %[[V12:.*]] = stablehlo.multiply %[[V0]], %[[V11]]
// JVP-NEXT:    return %[[V0]], %[[V12]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[C1:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.sign %arg0
// VJP-NEXT:    %[[V1:.*]] = stablehlo.abs %arg0 : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.compare EQ, %[[V1]], %[[C0]] : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.select %[[V2]], %[[C1]], %[[V1]]
// VJP-NEXT:    %[[V4:.*]] = stablehlo.imag %[[V0]] : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.negate %[[V4]]
// VJP-NEXT:    %[[V6:.*]] = stablehlo.real %[[V0]] : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.complex %[[V6]], %[[V5]]
// VJP-NEXT:    %[[V8:.*]] = stablehlo.multiply %[[V7]], %arg1
// VJP-NEXT:    %[[V9:.*]] = stablehlo.imag %[[V8]] : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
// VJP-NEXT:    %[[V10:.*]] = stablehlo.divide %[[V9]], %[[V3]]
// VJP-NEXT:    %[[V11:.*]] = stablehlo.complex %[[C0]], %[[V10]]
// VJP-NEXT:    %[[V12:.*]] = stablehlo.multiply %[[V0]], %[[V11]]
// VJP-NEXT:    return %[[V0]], %[[V12]]

func.func @main(%x: tensor<3xcomplex<f64>>) -> tensor<3xcomplex<f64>> {
  %0 = stablehlo.sign %x : tensor<3xcomplex<f64>>
  return %0 : tensor<3xcomplex<f64>>
}
