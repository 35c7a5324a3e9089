// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// The product rule. The transpose multiplies by the other operand.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = stablehlo.multiply %arg0, %arg1
// JVP-NEXT:    %[[V1:.*]] = stablehlo.multiply %arg0, %arg3
// JVP-NEXT:    %[[V2:.*]] = stablehlo.multiply %arg2, %arg1
// JVP-NEXT:    %[[V3:.*]] = stablehlo.add %[[V2]], %[[V1]]
// JVP-NEXT:    return %[[V0]], %[[V3]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[V0:.*]] = stablehlo.multiply %arg0, %arg1
// VJP-NEXT:    %[[V1:.*]] = stablehlo.multiply %arg1, %arg2
// VJP-NEXT:    %[[V2:.*]] = stablehlo.multiply %arg0, %arg2
// VJP-NEXT:    return %[[V0]], %[[V1]], %[[V2]]

func.func @main(%x: tensor<3xf64>, %y: tensor<3xf64>) -> tensor<3xf64> {
  %0 = stablehlo.multiply %x, %y : tensor<3xf64>
  return %0 : tensor<3xf64>
}
