// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// The straight-through derivative within the range; the bounds of the range come from quantizing infinities.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0xFF800000> : tensor<3xf32>
// JVP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<0x7F800000> : tensor<3xf32>
// JVP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3xf32>
// JVP-NEXT:    %[[V0:.*]] = stablehlo.uniform_quantize %arg0 {tidu.straight_through} : (tensor<3xf32>) -> tensor<3x!quant.uniform<i8:f32, 5.000000e-01:3>>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.uniform_dequantize %[[V0]] : (tensor<3x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<3xf32>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.uniform_quantize %[[CST_0]] : (tensor<3xf32>) -> tensor<3x!quant.uniform<i8:f32, 5.000000e-01:3>>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.uniform_dequantize %[[V2]] : (tensor<3x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<3xf32>
// JVP-NEXT:    %[[V4:.*]] = stablehlo.compare LE, %arg0, %[[V3]] : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
// JVP-NEXT:    %[[V5:.*]] = stablehlo.uniform_quantize %[[CST]] : (tensor<3xf32>) -> tensor<3x!quant.uniform<i8:f32, 5.000000e-01:3>>
// JVP-NEXT:    %[[V6:.*]] = stablehlo.uniform_dequantize %[[V5]] : (tensor<3x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<3xf32>
// JVP-NEXT:    %[[V7:.*]] = stablehlo.compare LE, %[[V6]], %arg0 : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
// JVP-NEXT:    %[[V8:.*]] = stablehlo.and %[[V7]], %[[V4]] : tensor<3xi1>
// JVP-NEXT:    %[[V9:.*]] = stablehlo.select %[[V8]], %arg1, %[[CST_1]] : tensor<3xi1>, tensor<3xf32>
// JVP-NEXT:    return %[[V1]], %[[V9]] : tensor<3xf32>, tensor<3xf32>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0xFF800000> : tensor<3xf32>
// VJP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<0x7F800000> : tensor<3xf32>
// VJP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3xf32>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.uniform_quantize %arg0 {tidu.straight_through} : (tensor<3xf32>) -> tensor<3x!quant.uniform<i8:f32, 5.000000e-01:3>>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.uniform_dequantize %[[V0]] : (tensor<3x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<3xf32>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.uniform_quantize %[[CST_0]] : (tensor<3xf32>) -> tensor<3x!quant.uniform<i8:f32, 5.000000e-01:3>>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.uniform_dequantize %[[V2]] : (tensor<3x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<3xf32>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.compare LE, %arg0, %[[V3]] : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.uniform_quantize %[[CST]] : (tensor<3xf32>) -> tensor<3x!quant.uniform<i8:f32, 5.000000e-01:3>>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.uniform_dequantize %[[V5]] : (tensor<3x!quant.uniform<i8:f32, 5.000000e-01:3>>) -> tensor<3xf32>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.compare LE, %[[V6]], %arg0 : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
// VJP-NEXT:    %[[V8:.*]] = stablehlo.and %[[V7]], %[[V4]] : tensor<3xi1>
// VJP-NEXT:    %[[V9:.*]] = stablehlo.select %[[V8]], %arg1, %[[CST_1]] : tensor<3xi1>, tensor<3xf32>
// VJP-NEXT:    return %[[V1]], %[[V9]] : tensor<3xf32>, tensor<3xf32>

func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.uniform_quantize %x {tidu.straight_through} : (tensor<3xf32>) -> tensor<3x!quant.uniform<i8:f32, 0.5:3>>
  %1 = stablehlo.uniform_dequantize %0 : (tensor<3x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<3xf32>
  return %1 : tensor<3xf32>
}
