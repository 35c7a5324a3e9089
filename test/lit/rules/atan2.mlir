// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// dz = (y dx - x dy) / (x^2 + y^2).

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = stablehlo.atan2 %arg0, %arg1
// JVP-NEXT:    %[[V1:.*]] = stablehlo.multiply %arg1, %arg1
// JVP-NEXT:    %[[V2:.*]] = stablehlo.multiply %arg0, %arg0
// JVP-NEXT:    %[[V3:.*]] = stablehlo.add %[[V2]], %[[V1]]
// JVP-NEXT:    %[[V4:.*]] = stablehlo.multiply %arg0, %arg3
// JVP-NEXT:    %[[V5:.*]] = stablehlo.multiply %arg1, %arg2
// JVP-NEXT:    %[[V6:.*]] = stablehlo.subtract %[[V5]], %[[V4]]
// JVP-NEXT:    %[[V7:.*]] = stablehlo.divide %[[V6]], %[[V3]]
// JVP-NEXT:    return %[[V0]], %[[V7]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[V0:.*]] = stablehlo.atan2 %arg0, %arg1
// VJP-NEXT:    %[[V1:.*]] = stablehlo.multiply %arg1, %arg1
// VJP-NEXT:    %[[V2:.*]] = stablehlo.multiply %arg0, %arg0
// VJP-NEXT:    %[[V3:.*]] = stablehlo.add %[[V2]], %[[V1]]
// VJP-NEXT:    %[[V4:.*]] = stablehlo.divide %arg2, %[[V3]]
// VJP-NEXT:    %[[V5:.*]] = stablehlo.multiply %arg1, %[[V4]]
// VJP-NEXT:    %[[V6:.*]] = stablehlo.negate %[[V4]]
// VJP-NEXT:    %[[V7:.*]] = stablehlo.multiply %arg0, %[[V6]]
// VJP-NEXT:    return %[[V0]], %[[V5]], %[[V7]]

func.func @main(%x: tensor<3xf64>, %y: tensor<3xf64>) -> tensor<3xf64> {
  %0 = stablehlo.atan2 %x, %y : tensor<3xf64>
  return %0 : tensor<3xf64>
}
