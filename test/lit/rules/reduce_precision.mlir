// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// Treated as linear: tangents and cotangents are also rounded.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = stablehlo.reduce_precision %arg0, format = e8m7
// JVP-NEXT:    %[[V1:.*]] = stablehlo.reduce_precision %arg1, format = e8m7
// JVP-NEXT:    return %[[V0]], %[[V1]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[V0:.*]] = stablehlo.reduce_precision %arg0, format = e8m7
// VJP-NEXT:    %[[V1:.*]] = stablehlo.reduce_precision %arg1, format = e8m7
// VJP-NEXT:    return %[[V0]], %[[V1]]

func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {
  %0 = stablehlo.reduce_precision %x, format = e8m7 : tensor<3xf64>
  return %0 : tensor<3xf64>
}
