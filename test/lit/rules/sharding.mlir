// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// A constraint is linear, and applies to tangents and cotangents unchanged.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = stablehlo.custom_call @Sharding(%arg0) {mhlo.sharding = "{devices=[2,4]<=[8]}"} : (tensor<8x4xf64>) -> tensor<8x4xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.custom_call @Sharding(%arg1) {mhlo.sharding = "{devices=[2,4]<=[8]}"} : (tensor<8x4xf64>) -> tensor<8x4xf64>
// JVP-NEXT:    return %[[V0]], %[[V1]] : tensor<8x4xf64>, tensor<8x4xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[V0:.*]] = stablehlo.custom_call @Sharding(%arg0) {mhlo.sharding = "{devices=[2,4]<=[8]}"} : (tensor<8x4xf64>) -> tensor<8x4xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.custom_call @Sharding(%arg1) {mhlo.sharding = "{devices=[2,4]<=[8]}"} : (tensor<8x4xf64>) -> tensor<8x4xf64>
// VJP-NEXT:    return %[[V0]], %[[V1]] : tensor<8x4xf64>, tensor<8x4xf64>

func.func @main(%x: tensor<8x4xf64> {mhlo.sharding = "{devices=[4,2]<=[8]}"}) -> tensor<8x4xf64> {
  %0 = stablehlo.custom_call @Sharding(%x) {mhlo.sharding = "{devices=[2,4]<=[8]}"} : (tensor<8x4xf64>) -> tensor<8x4xf64>
  return %0 : tensor<8x4xf64>
}
