// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// dz = dx - n dy, where n is the quotient truncated to a whole number.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = stablehlo.remainder %arg0, %arg1
// JVP-NEXT:    %[[V1:.*]] = stablehlo.subtract %arg0, %[[V0]]
// JVP-NEXT:    %[[V2:.*]] = stablehlo.divide %[[V1]], %arg1
// JVP-NEXT:    %[[V3:.*]] = stablehlo.round_nearest_even %[[V2]]
// JVP-NEXT:    %[[V4:.*]] = stablehlo.multiply %[[V3]], %arg3
// JVP-NEXT:    %[[V5:.*]] = stablehlo.subtract %arg2, %[[V4]]
// JVP-NEXT:    return %[[V0]], %[[V5]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[V0:.*]] = stablehlo.remainder %arg0, %arg1
// VJP-NEXT:    %[[V1:.*]] = stablehlo.negate %arg2
// VJP-NEXT:    %[[V2:.*]] = stablehlo.subtract %arg0, %[[V0]]
// VJP-NEXT:    %[[V3:.*]] = stablehlo.divide %[[V2]], %arg1
// VJP-NEXT:    %[[V4:.*]] = stablehlo.round_nearest_even %[[V3]]
// VJP-NEXT:    %[[V5:.*]] = stablehlo.multiply %[[V4]], %[[V1]]
// VJP-NEXT:    return %[[V0]], %arg2, %[[V5]]

func.func @main(%x: tensor<3xf64>, %y: tensor<3xf64>) -> tensor<3xf64> {
  %0 = stablehlo.remainder %x, %y : tensor<3xf64>
  return %0 : tensor<3xf64>
}
