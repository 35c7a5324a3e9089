// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// The body has wider elements than the operands: operands and tangents are converted.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = stablehlo.reduce(%arg0 init: %arg1) across dimensions = [0] : (tensor<2xf32>, tensor<f32>) -> tensor<f64>
// JVP-NEXT:    reducer(%arg4: tensor<f64>, %arg5: tensor<f64>)  {
// JVP-NEXT:    %[[V18:.*]] = stablehlo.multiply %arg4, %arg5 : tensor<f64>
// JVP-NEXT:    stablehlo.return %[[V18]] : tensor<f64>
// JVP-NEXT:    }
// JVP-NEXT:    %[[V1:.*]] = stablehlo.convert %arg2 : (tensor<2xf32>) -> tensor<2xf64>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.slice %[[V1]] [1:2] : (tensor<2xf64>) -> tensor<1xf64>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.convert %arg0 : (tensor<2xf32>) -> tensor<2xf64>
// JVP-NEXT:    %[[V4:.*]] = stablehlo.slice %[[V3]] [0:1] : (tensor<2xf64>) -> tensor<1xf64>
// JVP-NEXT:    %[[V5:.*]] = stablehlo.multiply %[[V4]], %[[V2]] : tensor<1xf64>
// JVP-NEXT:    %[[V6:.*]] = stablehlo.slice %[[V3]] [1:2] : (tensor<2xf64>) -> tensor<1xf64>
// JVP-NEXT:    %[[V7:.*]] = stablehlo.slice %[[V1]] [0:1] : (tensor<2xf64>) -> tensor<1xf64>
// JVP-NEXT:    %[[V8:.*]] = stablehlo.multiply %[[V7]], %[[V6]] : tensor<1xf64>
// JVP-NEXT:    %[[V9:.*]] = stablehlo.add %[[V8]], %[[V5]] : tensor<1xf64>
// JVP-NEXT:    %[[V10:.*]] = stablehlo.reshape %[[V9]] : (tensor<1xf64>) -> tensor<f64>
// JVP-NEXT:    %[[V11:.*]] = stablehlo.convert %arg1 : (tensor<f32>) -> tensor<f64>
// JVP-NEXT:    %[[V12:.*]] = stablehlo.multiply %[[V11]], %[[V10]] : tensor<f64>
// JVP-NEXT:    %[[V13:.*]] = stablehlo.multiply %[[V4]], %[[V6]] : tensor<1xf64>
// JVP-NEXT:    %[[V14:.*]] = stablehlo.reshape %[[V13]] : (tensor<1xf64>) -> tensor<f64>
// JVP-NEXT:    %[[V15:.*]] = stablehlo.convert %arg3 : (tensor<f32>) -> tensor<f64>
// JVP-NEXT:    %[[V16:.*]] = stablehlo.multiply %[[V15]], %[[V14]] : tensor<f64>
// JVP-NEXT:    %[[V17:.*]] = stablehlo.add %[[V16]], %[[V12]] : tensor<f64>
// JVP-NEXT:    return %[[V0]], %[[V17]] : tensor<f64>, tensor<f64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.reduce(%arg0 init: %arg1) across dimensions = [0] : (tensor<2xf32>, tensor<f32>) -> tensor<f64>
// VJP-NEXT:    reducer(%arg3: tensor<f64>, %arg4: tensor<f64>)  {
// VJP-NEXT:    %[[V17:.*]] = stablehlo.multiply %arg3, %arg4 : tensor<f64>
// VJP-NEXT:    stablehlo.return %[[V17]] : tensor<f64>
// VJP-NEXT:    }
// VJP-NEXT:    %[[V1:.*]] = stablehlo.convert %arg1 : (tensor<f32>) -> tensor<f64>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.multiply %[[V1]], %arg2 : tensor<f64>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.reshape %[[V2]] : (tensor<f64>) -> tensor<1xf64>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.convert %arg0 : (tensor<2xf32>) -> tensor<2xf64>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.slice %[[V4]] [1:2] : (tensor<2xf64>) -> tensor<1xf64>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.multiply %[[V5]], %[[V3]] : tensor<1xf64>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.pad %[[V6]], %[[CST]], low = [0], high = [1], interior = [0] : (tensor<1xf64>, tensor<f64>) -> tensor<2xf64>
// VJP-NEXT:    %[[V8:.*]] = stablehlo.slice %[[V4]] [0:1] : (tensor<2xf64>) -> tensor<1xf64>
// VJP-NEXT:    %[[V9:.*]] = stablehlo.multiply %[[V8]], %[[V3]] : tensor<1xf64>
// VJP-NEXT:    %[[V10:.*]] = stablehlo.pad %[[V9]], %[[CST]], low = [1], high = [0], interior = [0] : (tensor<1xf64>, tensor<f64>) -> tensor<2xf64>
// VJP-NEXT:    %[[V11:.*]] = stablehlo.add %[[V10]], %[[V7]] : tensor<2xf64>
// VJP-NEXT:    %[[V12:.*]] = stablehlo.convert %[[V11]] : (tensor<2xf64>) -> tensor<2xf32>
// VJP-NEXT:    %[[V13:.*]] = stablehlo.multiply %[[V8]], %[[V5]] : tensor<1xf64>
// VJP-NEXT:    %[[V14:.*]] = stablehlo.reshape %[[V13]] : (tensor<1xf64>) -> tensor<f64>
// VJP-NEXT:    %[[V15:.*]] = stablehlo.multiply %[[V14]], %arg2 : tensor<f64>
// VJP-NEXT:    %[[V16:.*]] = stablehlo.convert %[[V15]] : (tensor<f64>) -> tensor<f32>
// VJP-NEXT:    return %[[V0]], %[[V12]], %[[V16]] : tensor<f64>, tensor<2xf32>, tensor<f32>

func.func @main(%x: tensor<2xf32>, %init: tensor<f32>) -> tensor<f64> {
  %0 = "stablehlo.reduce"(%x, %init) ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %1 = stablehlo.multiply %a, %b : tensor<f64>
    stablehlo.return %1 : tensor<f64>
  }) {dimensions = array<i64: 0>} : (tensor<2xf32>, tensor<f32>) -> tensor<f64>
  return %0 : tensor<f64>
}
