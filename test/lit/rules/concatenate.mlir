// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// An operand without a tangent becomes zeros. The transpose takes a slice for each active operand.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = stablehlo.concatenate %arg0, %arg1, %arg0, dim = 0 : (tensor<2xf64>, tensor<3xf64>, tensor<2xf64>) -> tensor<7xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.concatenate %arg2, %arg3, %arg2, dim = 0 : (tensor<2xf64>, tensor<3xf64>, tensor<2xf64>) -> tensor<7xf64>
// JVP-NEXT:    return %[[V0]], %[[V1]] : tensor<7xf64>, tensor<7xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[V0:.*]] = stablehlo.concatenate %arg0, %arg1, %arg0, dim = 0 : (tensor<2xf64>, tensor<3xf64>, tensor<2xf64>) -> tensor<7xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.slice %arg2 [5:7] : (tensor<7xf64>) -> tensor<2xf64>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.slice %arg2 [0:2] : (tensor<7xf64>) -> tensor<2xf64>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.add %[[V2]], %[[V1]] : tensor<2xf64>
// VJP-NEXT:    %[[V4:.*]] = stablehlo.slice %arg2 [2:5] : (tensor<7xf64>) -> tensor<3xf64>
// VJP-NEXT:    return %[[V0]], %[[V3]], %[[V4]] : tensor<7xf64>, tensor<2xf64>, tensor<3xf64>

func.func @main(%x: tensor<2xf64>, %y: tensor<3xf64>) -> tensor<7xf64> {
  %0 = stablehlo.concatenate %x, %y, %x, dim = 0 : (tensor<2xf64>, tensor<3xf64>, tensor<2xf64>) -> tensor<7xf64>
  return %0 : tensor<7xf64>
}
