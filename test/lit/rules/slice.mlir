// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// The transpose is a pad with zeros before, between and after the elements.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[V0:.*]] = stablehlo.slice %arg0 [1:6:3] : (tensor<7xf64>) -> tensor<2xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.slice %arg1 [1:6:3] : (tensor<7xf64>) -> tensor<2xf64>
// JVP-NEXT:    return %[[V0]], %[[V1]] : tensor<2xf64>, tensor<2xf64>

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[CST:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.slice %arg0 [1:6:3] : (tensor<7xf64>) -> tensor<2xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.pad %arg1, %[[CST]], low = [1], high = [2], interior = [2] : (tensor<2xf64>, tensor<f64>) -> tensor<7xf64>
// VJP-NEXT:    return %[[V0]], %[[V1]] : tensor<2xf64>, tensor<7xf64>

func.func @main(%x: tensor<7xf64>) -> tensor<2xf64> {
  %0 = stablehlo.slice %x [1:6:3] : (tensor<7xf64>) -> tensor<2xf64>
  return %0 : tensor<2xf64>
}
