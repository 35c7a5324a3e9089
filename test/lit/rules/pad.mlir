// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// The transpose gives zeros to dropped elements, and the sum over the padding to the padding value.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = stablehlo.pad %arg0, %arg1, low = [-1], high = [2], interior = [1] : (tensor<4xf64>, tensor<f64>) -> tensor<8xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.pad %arg2, %arg3, low = [-1], high = [2], interior = [1] : (tensor<4xf64>, tensor<f64>) -> tensor<8xf64>
// JVP-NEXT:    return %[[V0]], %[[V1]] : tensor<8xf64>, tensor<8xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[C:.*]] = stablehlo.constant dense<true> : tensor<4xi1>
// VJP-NEXT:    %[[C_0:.*]] = stablehlo.constant dense<false> : tensor<i1>
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<8xf64>
// VJP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.pad %arg0, %arg1, low = [-1], high = [2], interior = [1] : (tensor<4xf64>, tensor<f64>) -> tensor<8xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.pad %arg2, %[[CST_1]], low = [1], high = [-2], interior = [0] : (tensor<8xf64>, tensor<f64>) -> tensor<7xf64>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.slice %[[V1]] [0:7:2] : (tensor<7xf64>) -> tensor<4xf64>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.pad %[[C]], %[[C_0]], low = [-1], high = [2], interior = [1] : (tensor<4xi1>, tensor<i1>) -> tensor<8xi1>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.select %[[V3]], %[[CST]], %arg2 : tensor<8xi1>, tensor<8xf64>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.reduce(%[[V4]] init: %[[CST_1]]) applies stablehlo.add across dimensions = [0] : (tensor<8xf64>, tensor<f64>) -> tensor<f64>
// VJP-NEXT:    return %[[V0]], %[[V2]], %[[V5]] : tensor<8xf64>, tensor<4xf64>, tensor<f64>

func.func @main(%x: tensor<4xf64>, %v: tensor<f64>) -> tensor<8xf64> {
  %0 = stablehlo.pad %x, %v, low = [-1], high = [2], interior = [1] : (tensor<4xf64>, tensor<f64>) -> tensor<8xf64>
  return %0 : tensor<8xf64>
}
