// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// y' = -sin(x).

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = stablehlo.cosine %arg0
// JVP-NEXT:    %[[V1:.*]] = stablehlo.sine %arg0
// JVP-NEXT:    %[[V2:.*]] = stablehlo.negate %[[V1]]
// JVP-NEXT:    %[[V3:.*]] = stablehlo.multiply %[[V2]], %arg1
// JVP-NEXT:    return %[[V0]], %[[V3]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[V0:.*]] = stablehlo.cosine %arg0
// VJP-NEXT:    %[[V1:.*]] = stablehlo.sine %arg0
// VJP-NEXT:    %[[V2:.*]] = stablehlo.negate %[[V1]]
// VJP-NEXT:    %[[V3:.*]] = stablehlo.multiply %[[V2]], %arg1
// VJP-NEXT:    return %[[V0]], %[[V3]]

func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {
  %0 = stablehlo.cosine %x : tensor<3xf64>
  return %0 : tensor<3xf64>
}
