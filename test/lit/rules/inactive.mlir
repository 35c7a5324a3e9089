// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// Step functions have derivative zero: tangents flow only around them.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[V0:.*]] = stablehlo.floor %arg0
// JVP-NEXT:    %[[V1:.*]] = stablehlo.ceil %[[V0]]
// JVP-NEXT:    %[[V2:.*]] = stablehlo.round_nearest_afz %[[V1]]
// JVP-NEXT:    %[[V3:.*]] = stablehlo.round_nearest_even %[[V2]]
// JVP-NEXT:    %[[V4:.*]] = stablehlo.sign %[[V3]]
// JVP-NEXT:    %[[V5:.*]] = stablehlo.compare LT, %[[V4]], %arg0 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// JVP-NEXT:    %[[V6:.*]] = stablehlo.is_finite %arg0 : (tensor<3xf64>) -> tensor<3xi1>
// JVP-NEXT:    %[[V7:.*]] = stablehlo.and %[[V6]], %[[V5]]
// JVP-NEXT:    %[[V8:.*]] = stablehlo.select %[[V7]], %[[V4]], %arg0
// JVP-NEXT:    %[[V9:.*]] = stablehlo.select %[[V7]], %[[C0]], %arg1
// JVP-NEXT:    return %[[V8]], %[[V9]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.floor %arg0
// VJP-NEXT:    %[[V1:.*]] = stablehlo.ceil %[[V0]]
// VJP-NEXT:    %[[V2:.*]] = stablehlo.round_nearest_afz %[[V1]]
// VJP-NEXT:    %[[V3:.*]] = stablehlo.round_nearest_even %[[V2]]
// VJP-NEXT:    %[[V4:.*]] = stablehlo.sign %[[V3]]
// VJP-NEXT:    %[[V5:.*]] = stablehlo.compare LT, %[[V4]], %arg0 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// VJP-NEXT:    %[[V6:.*]] = stablehlo.is_finite %arg0 : (tensor<3xf64>) -> tensor<3xi1>
// VJP-NEXT:    %[[V7:.*]] = stablehlo.and %[[V6]], %[[V5]]
// VJP-NEXT:    %[[V8:.*]] = stablehlo.select %[[V7]], %[[V4]], %arg0
// VJP-NEXT:    %[[V9:.*]] = stablehlo.select %[[V7]], %[[C0]], %arg1
// VJP-NEXT:    return %[[V8]], %[[V9]]

func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {
  %0 = stablehlo.floor %x : tensor<3xf64>
  %1 = stablehlo.ceil %0 : tensor<3xf64>
  %2 = stablehlo.round_nearest_afz %1 : tensor<3xf64>
  %3 = stablehlo.round_nearest_even %2 : tensor<3xf64>
  %4 = stablehlo.sign %3 : tensor<3xf64>
  %5 = stablehlo.is_finite %x : (tensor<3xf64>) -> tensor<3xi1>
  %6 = stablehlo.compare LT, %4, %x : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
  %7 = stablehlo.and %5, %6 : tensor<3xi1>
  %8 = stablehlo.select %7, %4, %x : tensor<3xi1>, tensor<3xf64>
  return %8 : tensor<3xf64>
}
