// RUN: tiduc jvp %s | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --engine reference

// With constant bounds: the tangent inside, half of it at a bound, zero outside.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<-1.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[C1:.*]] = stablehlo.constant dense<5.000000e-01> : tensor<3xf64>
// JVP-NEXT:    %[[C2:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[C3:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[C4:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<f64>
// JVP-NEXT:    %[[C5:.*]] = stablehlo.constant dense<-1.000000e+00> : tensor<f64>
// JVP-NEXT:    %[[V0:.*]] = stablehlo.clamp %[[C5]], %arg0, %[[C4]] : (tensor<f64>, tensor<3xf64>, tensor<f64>) -> tensor<3xf64>
// JVP-NEXT:    %[[V1:.*]] = stablehlo.compare EQ, %[[C0]], %arg0 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// JVP-NEXT:    %[[V2:.*]] = stablehlo.select %[[V1]], %[[C1]], %[[C2]]
// JVP-NEXT:    %[[V3:.*]] = stablehlo.multiply %[[V2]], %arg1
// JVP-NEXT:    %[[V4:.*]] = stablehlo.compare LE, %[[C0]], %arg0 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// JVP-NEXT:    %[[V5:.*]] = stablehlo.select %[[V4]], %[[V3]], %[[C3]]
// JVP-NEXT:    %[[V6:.*]] = stablehlo.maximum %arg0, %[[C0]]
// JVP-NEXT:    %[[V7:.*]] = stablehlo.compare EQ, %[[V6]], %[[C2]] : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// JVP-NEXT:    %[[V8:.*]] = stablehlo.select %[[V7]], %[[C1]], %[[C2]]
// JVP-NEXT:    %[[V9:.*]] = stablehlo.multiply %[[V8]], %[[V5]]
// JVP-NEXT:    %[[V10:.*]] = stablehlo.compare LE, %[[V6]], %[[C2]] : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// JVP-NEXT:    %[[V11:.*]] = stablehlo.select %[[V10]], %[[V9]], %[[C3]]
// JVP-NEXT:    return %[[V0]], %[[V11]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<5.000000e-01> : tensor<3xf64>
// VJP-NEXT:    %[[C1:.*]] = stablehlo.constant dense<-1.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[C2:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[C3:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[C4:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[C5:.*]] = stablehlo.constant dense<-1.000000e+00> : tensor<f64>
// VJP-NEXT:    %[[V0:.*]] = stablehlo.clamp %[[C5]], %arg0, %[[C4]] : (tensor<f64>, tensor<3xf64>, tensor<f64>) -> tensor<3xf64>
// VJP-NEXT:    %[[V1:.*]] = stablehlo.maximum %arg0, %[[C1]]
// VJP-NEXT:    %[[V2:.*]] = stablehlo.compare LE, %[[V1]], %[[C2]] : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// VJP-NEXT:    %[[V3:.*]] = stablehlo.select %[[V2]], %arg1, %[[C3]]
// VJP-NEXT:    %[[V4:.*]] = stablehlo.compare EQ, %[[V1]], %[[C2]] : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// VJP-NEXT:    %[[V5:.*]] = stablehlo.select %[[V4]], %[[C0]], %[[C2]]
// VJP-NEXT:    %[[V6:.*]] = stablehlo.multiply %[[V5]], %[[V3]]
// VJP-NEXT:    %[[V7:.*]] = stablehlo.compare LE, %[[C1]], %arg0 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// VJP-NEXT:    %[[V8:.*]] = stablehlo.select %[[V7]], %[[V6]], %[[C3]]
// VJP-NEXT:    %[[V9:.*]] = stablehlo.compare EQ, %[[C1]], %arg0 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
// VJP-NEXT:    %[[V10:.*]] = stablehlo.select %[[V9]], %[[C0]], %[[C2]]
// VJP-NEXT:    %[[V11:.*]] = stablehlo.multiply %[[V10]], %[[V8]]
// VJP-NEXT:    return %[[V0]], %[[V11]]

func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {
  %low = stablehlo.constant dense<-1.0> : tensor<f64>
  %high = stablehlo.constant dense<1.0> : tensor<f64>
  %0 = stablehlo.clamp %low, %x, %high : (tensor<f64>, tensor<3xf64>, tensor<f64>) -> tensor<3xf64>
  return %0 : tensor<3xf64>
}
