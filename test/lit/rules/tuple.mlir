// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// Tangents pass through tuples; no tuple of tangents is built.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = stablehlo.sine %arg0 : tensor<3xf32>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.cosine %arg0 : tensor<3xf32>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.multiply %[[V1]], %arg2 : tensor<3xf32>
// JVP-NEXT:    return %[[V0]], %[[V2]] : tensor<3xf32>, tensor<3xf32>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f32>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.sine %arg0 : tensor<3xf32>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.cosine %arg0 : tensor<3xf32>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.multiply %[[V1]], %arg2 : tensor<3xf32>
// VJP-NEXT:    return %[[V0]], %[[V2]], %[[CST]] : tensor<3xf32>, tensor<3xf32>, tensor<f32>

func.func @main(%x: tensor<3xf32>, %y: tensor<f32>) -> tensor<3xf32> {
  %0 = stablehlo.sine %x : tensor<3xf32>
  %1 = stablehlo.tuple %0, %y : tuple<tensor<3xf32>, tensor<f32>>
  %2 = stablehlo.get_tuple_element %1[0] : (tuple<tensor<3xf32>, tensor<f32>>) -> tensor<3xf32>
  return %2 : tensor<3xf32>
}
