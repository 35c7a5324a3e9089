// RUN: tiduc jvp %s --wrt 1 | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s --wrt 1 | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --wrt 1 --engine reference

// Transposed: the product with the conjugate of the other operand.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = stablehlo.multiply %arg0, %arg1
// JVP-NEXT:    %[[V1:.*]] = stablehlo.multiply %arg0, %arg2
// JVP-NEXT:    return %[[V0]], %[[V1]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[V0:.*]] = stablehlo.multiply %arg0, %arg1
// VJP-NEXT:    %[[V1:.*]] = stablehlo.imag %arg0 : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.negate %[[V1]]
// VJP-NEXT:    %[[V3:.*]] = stablehlo.real %arg0 : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.complex %[[V3]], %[[V2]]
// VJP-NEXT:    %[[V5:.*]] = stablehlo.multiply %[[V4]], %arg2
// VJP-NEXT:    return %[[V0]], %[[V5]]

func.func @main(%x: tensor<3xcomplex<f64>>, %y: tensor<3xcomplex<f64>>) -> tensor<3xcomplex<f64>> {
  %0 = stablehlo.multiply %x, %y : tensor<3xcomplex<f64>>
  return %0 : tensor<3xcomplex<f64>>
}
