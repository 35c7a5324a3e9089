// RUN: tiduc jvp %s --wrt x | filecheck %s --check-prefix=F
// RUN: tiduc vjp %s --wrt x | filecheck %s --check-prefix=R
// RUN: tiduc jvp %s --wrt x | tiduc jvp - --wrt x | filecheck %s --check-prefix=FOF
// RUN: tiduc vjp %s --wrt x | tiduc jvp - --wrt x | filecheck %s --check-prefix=FOR
// RUN: tiduc jvp %s --wrt x | tiduc vjp - --wrt x | filecheck %s --check-prefix=ROF
// RUN: tiduc vjp %s --wrt x | tiduc vjp - --wrt x | filecheck %s --check-prefix=ROR

// f(x) = x + x

func.func @main(%x: tensor<f64> {tidu.name = "x"}) -> (tensor<f64> {tidu.name = "f"}) {
  %0 = stablehlo.add %x, %x : tensor<f64>
  return %0 : tensor<f64>
}

// Forward: (x, x.tangent).
// F-LABEL: func.func @main
// F-NEXT:  %[[V0:.*]] = stablehlo.add %arg0, %arg0
// F-NEXT:  %[[V1:.*]] = stablehlo.add %arg1, %arg1
// F-NEXT:  return %[[V0]], %[[V1]]

// Reverse: (x, f.cotangent).
// R-LABEL: func.func @main
// R-NEXT:  %[[V0:.*]] = stablehlo.add %arg0, %arg0
// R-NEXT:  %[[V1:.*]] = stablehlo.add %arg1, %arg1
// R-NEXT:  return %[[V0]], %[[V1]]

// Forward over forward: (x, x.tangent, x.tangent.2).
// FOF-LABEL: func.func @main
// FOF-NEXT:  %[[ZERO:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// FOF-NEXT:  %[[V0:.*]] = stablehlo.add %arg0, %arg0
// FOF-NEXT:  %[[V1:.*]] = stablehlo.add %arg1, %arg1
// FOF-NEXT:  %[[V2:.*]] = stablehlo.add %arg2, %arg2
// FOF-NEXT:  return %[[V0]], %[[V1]], %[[V2]], %[[ZERO]]

// Forward over reverse: (x, f.cotangent, x.tangent).
// FOR-LABEL: func.func @main
// FOR-NEXT:  %[[ZERO:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// FOR-NEXT:  %[[V0:.*]] = stablehlo.add %arg0, %arg0
// FOR-NEXT:  %[[V1:.*]] = stablehlo.add %arg1, %arg1
// FOR-NEXT:  %[[V2:.*]] = stablehlo.add %arg2, %arg2
// FOR-NEXT:  return %[[V0]], %[[V1]], %[[V2]], %[[ZERO]]

// Reverse over forward: (x, x.tangent, f.cotangent, f.tangent.cotangent).
// ROF-LABEL: func.func @main
// ROF-NEXT:  %[[V0:.*]] = stablehlo.add %arg0, %arg0
// ROF-NEXT:  %[[V1:.*]] = stablehlo.add %arg1, %arg1
// ROF-NEXT:  %[[V2:.*]] = stablehlo.add %arg2, %arg2
// ROF-NEXT:  return %[[V0]], %[[V1]], %[[V2]]

// Reverse over reverse: (x, f.cotangent, f.cotangent.2, x.cotangent.cotangent).
// ROR-LABEL: func.func @main
// ROR-NEXT:  %[[V0:.*]] = stablehlo.add %arg0, %arg0
// ROR-NEXT:  %[[V1:.*]] = stablehlo.add %arg1, %arg1
// ROR-NEXT:  %[[V2:.*]] = stablehlo.add %arg2, %arg2
// ROR-NEXT:  return %[[V0]], %[[V1]], %[[V2]]
