// RUN: tiduc jvp %s --wrt 1 | filecheck %s --check-prefix=JVP
// RUN: tiduc vjp %s --wrt 1 | filecheck %s --check-prefix=VJP
// RUN: tiduc -q check %s --wrt 1 --input 0,1,2 --input 0.5,1,2 --engine reference

// d/dx polygamma(n, x) = polygamma(n + 1, x); there is no derivative toward n.

// JVP-LABEL: func.func @main
// JVP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// JVP-NEXT:    %[[V0:.*]] = chlo.polygamma %arg0, %arg1
// JVP-NEXT:    %[[V1:.*]] = stablehlo.add %arg0, %[[C0]]
// JVP-NEXT:    %[[V2:.*]] = chlo.polygamma %[[V1]], %arg1
// JVP-NEXT:    %[[V3:.*]] = stablehlo.multiply %[[V2]], %arg2
// JVP-NEXT:    return %[[V0]], %[[V3]]

// VJP-LABEL: func.func @main
// VJP-NEXT:    %[[C0:.*]] = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
// VJP-NEXT:    %[[V0:.*]] = chlo.polygamma %arg0, %arg1
// VJP-NEXT:    %[[V1:.*]] = stablehlo.add %arg0, %[[C0]]
// VJP-NEXT:    %[[V2:.*]] = chlo.polygamma %[[V1]], %arg1
// VJP-NEXT:    %[[V3:.*]] = stablehlo.multiply %[[V2]], %arg2
// VJP-NEXT:    return %[[V0]], %[[V3]]

func.func @main(%n: tensor<3xf64>, %x: tensor<3xf64>) -> tensor<3xf64> {
  %0 = chlo.polygamma %n, %x : tensor<3xf64>, tensor<3xf64> -> tensor<3xf64>
  return %0 : tensor<3xf64>
}
