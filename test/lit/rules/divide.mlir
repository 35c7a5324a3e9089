// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// d(x / y) = (dx - (x / y) dy) / y.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = stablehlo.divide %arg0, %arg1
// JVP-NEXT:    %[[V1:.*]] = stablehlo.multiply %[[V0]], %arg3
// JVP-NEXT:    %[[V2:.*]] = stablehlo.subtract %arg2, %[[V1]]
// JVP-NEXT:    %[[V3:.*]] = stablehlo.divide %[[V2]], %arg1
// JVP-NEXT:    return %[[V0]], %[[V3]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[V0:.*]] = stablehlo.divide %arg0, %arg1
// VJP-NEXT:    %[[V1:.*]] = stablehlo.divide %arg2, %arg1
// VJP-NEXT:    %[[V2:.*]] = stablehlo.negate %[[V1]]
// VJP-NEXT:    %[[V3:.*]] = stablehlo.multiply %[[V0]], %[[V2]]
// VJP-NEXT:    return %[[V0]], %[[V1]], %[[V3]]

func.func @main(%x: tensor<3xf64>, %y: tensor<3xf64>) -> tensor<3xf64> {
  %0 = stablehlo.divide %x, %y : tensor<3xf64>
  return %0 : tensor<3xf64>
}
