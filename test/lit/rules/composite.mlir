// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// A composite is replaced by its decomposition; a stop_gradient composite is kept, and has no tangent.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = stablehlo.negate %arg0
// JVP-NEXT:    %[[V1:.*]] = stablehlo.composite "tidu.stop_gradient" %arg0 {decomposition = @same}
// JVP-NEXT:    %[[V2:.*]] = stablehlo.multiply %[[V1]], %[[V0]]
// JVP-NEXT:    %[[V3:.*]] = stablehlo.negate %arg1
// JVP-NEXT:    %[[V4:.*]] = stablehlo.multiply %[[V1]], %[[V3]]
// JVP-NEXT:    return %[[V2]], %[[V4]]
// JVP:       func.func private @same
// JVP-NOT:   @negative

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[V0:.*]] = stablehlo.negate %arg0
// VJP-NEXT:    %[[V1:.*]] = stablehlo.composite "tidu.stop_gradient" %arg0 {decomposition = @same}
// VJP-NEXT:    %[[V2:.*]] = stablehlo.multiply %[[V1]], %[[V0]]
// VJP-NEXT:    %[[V3:.*]] = stablehlo.multiply %[[V1]], %arg1
// VJP-NEXT:    %[[V4:.*]] = stablehlo.negate %[[V3]]
// VJP-NEXT:    return %[[V2]], %[[V4]]
// VJP:       func.func private @same
// VJP-NOT:   @negative

func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {
  %0 = stablehlo.composite "tidu.stop_gradient" %x {decomposition = @same} : (tensor<3xf64>) -> tensor<3xf64>
  %1 = stablehlo.composite "my.negative" %x {decomposition = @negative} : (tensor<3xf64>) -> tensor<3xf64>
  %2 = stablehlo.multiply %0, %1 : tensor<3xf64>
  return %2 : tensor<3xf64>
}
func.func private @same(%x: tensor<3xf64>) -> tensor<3xf64> {
  return %x : tensor<3xf64>
}
func.func private @negative(%x: tensor<3xf64>) -> tensor<3xf64> {
  %0 = stablehlo.negate %x : tensor<3xf64>
  return %0 : tensor<3xf64>
}
