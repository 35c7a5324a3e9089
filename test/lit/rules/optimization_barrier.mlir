// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// A barrier around the tangents. The transpose is a barrier around the cotangents.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]]:3 = stablehlo.optimization_barrier %arg0, %arg1, %arg2
// JVP-NEXT:    %[[V1:.*]] = stablehlo.multiply %[[V0]]#0, %[[V0]]#2
// JVP-NEXT:    %[[V2:.*]]:2 = stablehlo.optimization_barrier %arg3, %arg4
// JVP-NEXT:    %[[V3:.*]] = stablehlo.multiply %[[V0]]#0, %[[V2]]#1
// JVP-NEXT:    %[[V4:.*]] = stablehlo.multiply %[[V2]]#0, %[[V0]]#2
// JVP-NEXT:    %[[V5:.*]] = stablehlo.add %[[V4]], %[[V3]]
// JVP-NEXT:    return %[[V1]], %[[V0]]#1, %[[V5]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[V0:.*]]:3 = stablehlo.optimization_barrier %arg0, %arg1, %arg2
// VJP-NEXT:    %[[V1:.*]] = stablehlo.multiply %[[V0]]#0, %[[V0]]#2
// VJP-NEXT:    %[[V2:.*]] = stablehlo.multiply %[[V0]]#0, %arg3
// VJP-NEXT:    %[[V3:.*]] = stablehlo.multiply %[[V0]]#2, %arg3
// VJP-NEXT:    %[[V4:.*]]:2 = stablehlo.optimization_barrier %[[V3]], %[[V2]]
// VJP-NEXT:    return %[[V1]], %[[V0]]#1, %[[V4]]#0, %[[V4]]#1

func.func @main(%x: tensor<3xf64>, %i: tensor<i32>, %y: tensor<3xf64>) -> (tensor<3xf64>, tensor<i32>) {
  %0:3 = stablehlo.optimization_barrier %x, %i, %y : tensor<3xf64>, tensor<i32>, tensor<3xf64>
  %1 = stablehlo.multiply %0#0, %0#2 : tensor<3xf64>
  return %1, %0#1 : tensor<3xf64>, tensor<i32>
}
