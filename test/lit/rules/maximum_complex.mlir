// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// Compared by real parts, then by imaginary parts.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<(5.000000e-01,0.000000e+00)> : tensor<complex<f32>>
// JVP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<(1.000000e+00,0.000000e+00)> : tensor<complex<f32>>
// JVP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<(0.000000e+00,0.000000e+00)> : tensor<complex<f32>>
// JVP-NEXT:    %[[V0:.*]] = stablehlo.maximum %arg0, %arg1 : tensor<complex<f32>>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.compare EQ, %arg0, %arg1 : (tensor<complex<f32>>, tensor<complex<f32>>) -> tensor<i1>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.select %[[V1]], %[[CST]], %[[CST_0]] : tensor<i1>, tensor<complex<f32>>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.multiply %[[V2]], %arg3 : tensor<complex<f32>>
// JVP-NEXT:    %[[V4:.*]] = stablehlo.imag %arg1 : (tensor<complex<f32>>) -> tensor<f32>
// JVP-NEXT:    %[[V5:.*]] = stablehlo.imag %arg0 : (tensor<complex<f32>>) -> tensor<f32>
// JVP-NEXT:    %[[V6:.*]] = stablehlo.compare LE, %[[V5]], %[[V4]] : (tensor<f32>, tensor<f32>) -> tensor<i1>
// JVP-NEXT:    %[[V7:.*]] = stablehlo.real %arg1 : (tensor<complex<f32>>) -> tensor<f32>
// JVP-NEXT:    %[[V8:.*]] = stablehlo.real %arg0 : (tensor<complex<f32>>) -> tensor<f32>
// JVP-NEXT:    %[[V9:.*]] = stablehlo.compare EQ, %[[V8]], %[[V7]] : (tensor<f32>, tensor<f32>) -> tensor<i1>
// JVP-NEXT:    %[[V10:.*]] = stablehlo.and %[[V9]], %[[V6]] : tensor<i1>
// JVP-NEXT:    %[[V11:.*]] = stablehlo.compare LT, %[[V8]], %[[V7]] : (tensor<f32>, tensor<f32>) -> tensor<i1>
// JVP-NEXT:    %[[V12:.*]] = stablehlo.or %[[V11]], %[[V10]] : tensor<i1>
// JVP-NEXT:    %[[V13:.*]] = stablehlo.select %[[V12]], %[[V3]], %[[CST_1]] : tensor<i1>, tensor<complex<f32>>
// JVP-NEXT:    %[[V14:.*]] = stablehlo.multiply %[[V2]], %arg2 : tensor<complex<f32>>
// JVP-NEXT:    %[[V15:.*]] = stablehlo.compare GE, %[[V5]], %[[V4]] : (tensor<f32>, tensor<f32>) -> tensor<i1>
// JVP-NEXT:    %[[V16:.*]] = stablehlo.and %[[V9]], %[[V15]] : tensor<i1>
// JVP-NEXT:    %[[V17:.*]] = stablehlo.compare GT, %[[V8]], %[[V7]] : (tensor<f32>, tensor<f32>) -> tensor<i1>
// JVP-NEXT:    %[[V18:.*]] = stablehlo.or %[[V17]], %[[V16]] : tensor<i1>
// JVP-NEXT:    %[[V19:.*]] = stablehlo.select %[[V18]], %[[V14]], %[[CST_1]] : tensor<i1>, tensor<complex<f32>>
// JVP-NEXT:    %[[V20:.*]] = stablehlo.add %[[V19]], %[[V13]] : tensor<complex<f32>>
// JVP-NEXT:    return %[[V0]], %[[V20]] : tensor<complex<f32>>, tensor<complex<f32>>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<(5.000000e-01,0.000000e+00)> : tensor<complex<f32>>
// VJP-NEXT:    %[[CST_0:.*]] = stablehlo.constant dense<(1.000000e+00,0.000000e+00)> : tensor<complex<f32>>
// VJP-NEXT:    %[[CST_1:.*]] = stablehlo.constant dense<(0.000000e+00,0.000000e+00)> : tensor<complex<f32>>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.maximum %arg0, %arg1 : tensor<complex<f32>>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.imag %arg1 : (tensor<complex<f32>>) -> tensor<f32>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.imag %arg0 : (tensor<complex<f32>>) -> tensor<f32>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.compare GE, %[[V2]], %[[V1]] : (tensor<f32>, tensor<f32>) -> tensor<i1>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.real %arg1 : (tensor<complex<f32>>) -> tensor<f32>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.real %arg0 : (tensor<complex<f32>>) -> tensor<f32>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.compare EQ, %[[V5]], %[[V4]] : (tensor<f32>, tensor<f32>) -> tensor<i1>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.and %[[V6]], %[[V3]] : tensor<i1>
// VJP-NEXT:    %[[V8:.*]] = stablehlo.compare GT, %[[V5]], %[[V4]] : (tensor<f32>, tensor<f32>) -> tensor<i1>
// VJP-NEXT:    %[[V9:.*]] = stablehlo.or %[[V8]], %[[V7]] : tensor<i1>
// VJP-NEXT:    %[[V10:.*]] = stablehlo.select %[[V9]], %arg2, %[[CST_1]] : tensor<i1>, tensor<complex<f32>>
// VJP-NEXT:    %[[V11:.*]] = stablehlo.compare EQ, %arg0, %arg1 : (tensor<complex<f32>>, tensor<complex<f32>>) -> tensor<i1>
// VJP-NEXT:    %[[V12:.*]] = stablehlo.select %[[V11]], %[[CST]], %[[CST_0]] : tensor<i1>, tensor<complex<f32>>
// VJP-NEXT:    %[[V13:.*]] = chlo.conj %[[V12]] : tensor<complex<f32>> -> tensor<complex<f32>>
// VJP-NEXT:    %[[V14:.*]] = stablehlo.multiply %[[V13]], %[[V10]] : tensor<complex<f32>>
// VJP-NEXT:    %[[V15:.*]] = stablehlo.compare LE, %[[V2]], %[[V1]] : (tensor<f32>, tensor<f32>) -> tensor<i1>
// VJP-NEXT:    %[[V16:.*]] = stablehlo.and %[[V6]], %[[V15]] : tensor<i1>
// VJP-NEXT:    %[[V17:.*]] = stablehlo.compare LT, %[[V5]], %[[V4]] : (tensor<f32>, tensor<f32>) -> tensor<i1>
// VJP-NEXT:    %[[V18:.*]] = stablehlo.or %[[V17]], %[[V16]] : tensor<i1>
// VJP-NEXT:    %[[V19:.*]] = stablehlo.select %[[V18]], %arg2, %[[CST_1]] : tensor<i1>, tensor<complex<f32>>
// VJP-NEXT:    %[[V20:.*]] = stablehlo.multiply %[[V13]], %[[V19]] : tensor<complex<f32>>
// VJP-NEXT:    return %[[V0]], %[[V14]], %[[V20]] : tensor<complex<f32>>, tensor<complex<f32>>, tensor<complex<f32>>

func.func @main(%x: tensor<complex<f32>>, %y: tensor<complex<f32>>) -> tensor<complex<f32>> {
  %0 = stablehlo.maximum %x, %y : tensor<complex<f32>>
  return %0 : tensor<complex<f32>>
}
