// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// The op is linear. The transpose takes the parts.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = stablehlo.complex %arg0, %arg1
// JVP-NEXT:    %[[V1:.*]] = stablehlo.complex %arg2, %arg3
// JVP-NEXT:    return %[[V0]], %[[V1]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[V0:.*]] = stablehlo.complex %arg0, %arg1
// VJP-NEXT:    %[[V1:.*]] = stablehlo.real %arg2 : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.imag %arg2 : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
// VJP-NEXT:    return %[[V0]], %[[V1]], %[[V2]]

func.func @main(%x: tensor<3xf64>, %y: tensor<3xf64>) -> tensor<3xcomplex<f64>> {
  %0 = stablehlo.complex %x, %y : tensor<3xcomplex<f64>>
  return %0 : tensor<3xcomplex<f64>>
}
