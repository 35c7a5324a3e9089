// RUN: tiduc jvp %s --wrt 1 | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s --wrt 1 | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --wrt 1 --engine reference

// The transpose multiplies by the conjugate of the other operand.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = stablehlo.multiply %arg0, %arg1
// JVP-NEXT:    %[[V1:.*]] = stablehlo.multiply %arg0, %arg2
// JVP-NEXT:    return %[[V0]], %[[V1]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[V0:.*]] = stablehlo.multiply %arg0, %arg1
// VJP-NEXT:    %[[V1:.*]] = chlo.conj %arg0
// VJP-NEXT:    %[[V2:.*]] = stablehlo.multiply %[[V1]], %arg2
// VJP-NEXT:    return %[[V0]], %[[V2]]

func.func @main(%x: tensor<3xcomplex<f64>>, %y: tensor<3xcomplex<f64>>) -> tensor<3xcomplex<f64>> {
  %0 = stablehlo.multiply %x, %y : tensor<3xcomplex<f64>>
  return %0 : tensor<3xcomplex<f64>>
}
