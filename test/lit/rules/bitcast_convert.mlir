// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// The op is the identity between equal types; integers have no tangent.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = stablehlo.bitcast_convert %arg0 : (tensor<3xf64>) -> tensor<3xi64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.bitcast_convert %arg0 : (tensor<3xf64>) -> tensor<3xf64>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.sine %[[V1]] : tensor<3xf64>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.cosine %[[V1]] : tensor<3xf64>
// JVP-NEXT:    %[[V4:.*]] = stablehlo.multiply %[[V3]], %arg1 : tensor<3xf64>
// JVP-NEXT:    return %[[V0]], %[[V2]], %[[V4]] : tensor<3xi64>, tensor<3xf64>, tensor<3xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[V0:.*]] = stablehlo.bitcast_convert %arg0 : (tensor<3xf64>) -> tensor<3xi64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.bitcast_convert %arg0 : (tensor<3xf64>) -> tensor<3xf64>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.sine %[[V1]] : tensor<3xf64>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.cosine %[[V1]] : tensor<3xf64>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.multiply %[[V3]], %arg1 : tensor<3xf64>
// VJP-NEXT:    return %[[V0]], %[[V2]], %[[V4]] : tensor<3xi64>, tensor<3xf64>, tensor<3xf64>

func.func @main(%x: tensor<3xf64>) -> (tensor<3xi64>, tensor<3xf64>) {
  %0 = stablehlo.bitcast_convert %x : (tensor<3xf64>) -> tensor<3xi64>
  %1 = stablehlo.bitcast_convert %x : (tensor<3xf64>) -> tensor<3xf64>
  %2 = stablehlo.sine %1 : tensor<3xf64>
  return %0, %2 : tensor<3xi64>, tensor<3xf64>
}
