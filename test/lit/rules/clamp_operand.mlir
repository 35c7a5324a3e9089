// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP

// Between constants: the tangent inside, zero at the bounds and beyond.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<-1.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[C1:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[C2:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[C3:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<f64>
// JVP-NEXT:    %[[C4:.*]] = stablehlo.constant dense<-1.000000e+00> : tensor<f64>
// JVP-NEXT:    %[[V0:.*]] = stablehlo.clamp %[[C4]], %arg0, %[[C3]] : (tensor<f64>, tensor<3xf64>, tensor<f64>) -> tensor<3xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.compare LT, %arg0, %[[C1]] : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.compare GT, %arg0, %[[C0]] : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// JVP-NEXT:    %[[V3:.*]] = stablehlo.and %[[V2]], %[[V1]]
// JVP-NEXT:    %[[V4:.*]] = stablehlo.select %[[V3]], %arg1, %[[C2]]
// JVP-NEXT:    return %[[V0]], %[[V4]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<-1.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[C1:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[C2:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[C3:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[C4:.*]] = stablehlo.constant dense<-1.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.clamp %[[C4]], %arg0, %[[C3]] : (tensor<f64>, tensor<3xf64>, tensor<f64>) -> tensor<3xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.compare LT, %arg0, %[[C1]] : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// VJP-NEXT:    %[[V2:.*]] = stablehlo.compare GT, %arg0, %[[C0]] : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.and %[[V2]], %[[V1]]
// VJP-NEXT:    %[[V4:.*]] = stablehlo.select %[[V3]], %arg1, %[[C2]]
// VJP-NEXT:    return %[[V0]], %[[V4]]

func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {
  %low = stablehlo.constant dense<-1.0> : tensor<f64>
  %high = stablehlo.constant dense<1.0> : tensor<f64>
  %0 = stablehlo.clamp %low, %x, %high : (tensor<f64>, tensor<3xf64>, tensor<f64>) -> tensor<3xf64>
  return %0 : tensor<3xf64>
}
