// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// The ops of the region are applied to whole tensors.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = "stablehlo.map"(%arg0, %arg1) <{dimensions = array<i64: 0, 1>}> ({
// JVP-NEXT:    ^bb0(%arg4: tensor<f64>, %arg5: tensor<f64>):
// JVP-NEXT:    %[[V7:.*]] = stablehlo.sine %arg4 : tensor<f64>
// JVP-NEXT:    %[[V8:.*]] = stablehlo.multiply %[[V7]], %arg5 : tensor<f64>
// JVP-NEXT:    stablehlo.return %[[V8]] : tensor<f64>
// JVP-NEXT:    }) : (tensor<4x3xf64>, tensor<4x3xf64>) -> tensor<4x3xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.sine %arg0 : tensor<4x3xf64>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.multiply %[[V1]], %arg3 : tensor<4x3xf64>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.cosine %arg0 : tensor<4x3xf64>
// JVP-NEXT:    %[[V4:.*]] = stablehlo.multiply %[[V3]], %arg2 : tensor<4x3xf64>
// JVP-NEXT:    %[[V5:.*]] = stablehlo.multiply %[[V4]], %arg1 : tensor<4x3xf64>
// JVP-NEXT:    %[[V6:.*]] = stablehlo.add %[[V5]], %[[V2]] : tensor<4x3xf64>
// JVP-NEXT:    return %[[V0]], %[[V6]] : tensor<4x3xf64>, tensor<4x3xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[V0:.*]] = "stablehlo.map"(%arg0, %arg1) <{dimensions = array<i64: 0, 1>}> ({
// VJP-NEXT:    ^bb0(%arg3: tensor<f64>, %arg4: tensor<f64>):
// VJP-NEXT:    %[[V6:.*]] = stablehlo.sine %arg3 : tensor<f64>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.multiply %[[V6]], %arg4 : tensor<f64>
// VJP-NEXT:    stablehlo.return %[[V7]] : tensor<f64>
// VJP-NEXT:    }) : (tensor<4x3xf64>, tensor<4x3xf64>) -> tensor<4x3xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.multiply %arg1, %arg2 : tensor<4x3xf64>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.cosine %arg0 : tensor<4x3xf64>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.multiply %[[V2]], %[[V1]] : tensor<4x3xf64>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.sine %arg0 : tensor<4x3xf64>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.multiply %[[V4]], %arg2 : tensor<4x3xf64>
// VJP-NEXT:    return %[[V0]], %[[V3]], %[[V5]] : tensor<4x3xf64>, tensor<4x3xf64>, tensor<4x3xf64>

func.func @main(%x: tensor<4x3xf64>, %y: tensor<4x3xf64>) -> tensor<4x3xf64> {
  %0 = "stablehlo.map"(%x, %y) ({
  ^bb0(%u: tensor<f64>, %t: tensor<f64>):
    %1 = stablehlo.sine %u : tensor<f64>
    %2 = stablehlo.multiply %1, %t : tensor<f64>
    stablehlo.return %2 : tensor<f64>
  }) {dimensions = array<i64: 0, 1>} : (tensor<4x3xf64>, tensor<4x3xf64>) -> tensor<4x3xf64>
  return %0 : tensor<4x3xf64>
}
