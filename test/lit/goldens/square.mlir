// RUN: tiduc jvp %s --wrt x | filecheck %s --check-prefix=F
// RUN: tiduc vjp %s --wrt x | filecheck %s --check-prefix=R
// RUN: tiduc jvp %s --wrt x | tiduc jvp - --wrt x | filecheck %s --check-prefix=FOF
// RUN: tiduc vjp %s --wrt x | tiduc jvp - --wrt x | filecheck %s --check-prefix=FOR
// RUN: tiduc jvp %s --wrt x | tiduc vjp - --wrt x | filecheck %s --check-prefix=ROF
// RUN: tiduc vjp %s --wrt x | tiduc vjp - --wrt x | filecheck %s --check-prefix=ROR

// f(x) = x^2

func.func @main(%x: tensor<f64> {tidu.name = "x"}) -> (tensor<f64> {tidu.name = "f"}) {
  %0 = stablehlo.multiply %x, %x : tensor<f64>
  return %0 : tensor<f64>
}

// Forward: (x, x.tangent).
// F-LABEL: func.func @main
// F-NEXT:  %[[V0:.*]] = stablehlo.multiply %arg0, %arg0
// F-NEXT:  %[[V1:.*]] = stablehlo.multiply %arg0, %arg1
// F-NEXT:  %[[V2:.*]] = stablehlo.add %[[V1]], %[[V1]]
// F-NEXT:  return %[[V0]], %[[V2]]

// Reverse: (x, f.cotangent).
// R-LABEL: func.func @main
// R-NEXT:  %[[V0:.*]] = stablehlo.multiply %arg0, %arg0
// R-NEXT:  %[[V1:.*]] = stablehlo.multiply %arg0, %arg1
// R-NEXT:  %[[V2:.*]] = stablehlo.add %[[V1]], %[[V1]]
// R-NEXT:  return %[[V0]], %[[V2]]

// Forward over forward: (x, x.tangent, x.tangent.2).
// FOF-LABEL: func.func @main
// FOF-NEXT:  %[[V0:.*]] = stablehlo.multiply %arg0, %arg0
// FOF-NEXT:  %[[V1:.*]] = stablehlo.multiply %arg0, %arg1
// FOF-NEXT:  %[[V2:.*]] = stablehlo.add %[[V1]], %[[V1]]
// FOF-NEXT:  %[[V3:.*]] = stablehlo.multiply %arg0, %arg2
// FOF-NEXT:  %[[V4:.*]] = stablehlo.add %[[V3]], %[[V3]]
// FOF-NEXT:  %[[V5:.*]] = stablehlo.multiply %arg2, %arg1
// FOF-NEXT:  %[[V6:.*]] = stablehlo.add %[[V5]], %[[V5]]
// FOF-NEXT:  return %[[V0]], %[[V2]], %[[V4]], %[[V6]]

// Forward over reverse: (x, f.cotangent, x.tangent).
// FOR-LABEL: func.func @main
// FOR-NEXT:  %[[V0:.*]] = stablehlo.multiply %arg0, %arg0
// FOR-NEXT:  %[[V1:.*]] = stablehlo.multiply %arg0, %arg1
// FOR-NEXT:  %[[V2:.*]] = stablehlo.add %[[V1]], %[[V1]]
// FOR-NEXT:  %[[V3:.*]] = stablehlo.multiply %arg0, %arg2
// FOR-NEXT:  %[[V4:.*]] = stablehlo.add %[[V3]], %[[V3]]
// FOR-NEXT:  %[[V5:.*]] = stablehlo.multiply %arg2, %arg1
// FOR-NEXT:  %[[V6:.*]] = stablehlo.add %[[V5]], %[[V5]]
// FOR-NEXT:  return %[[V0]], %[[V2]], %[[V4]], %[[V6]]

// Reverse over forward: (x, x.tangent, f.cotangent, f.tangent.cotangent).
// ROF-LABEL: func.func @main
// ROF-NEXT:  %[[V0:.*]] = stablehlo.multiply %arg0, %arg0
// ROF-NEXT:  %[[V1:.*]] = stablehlo.multiply %arg0, %arg1
// ROF-NEXT:  %[[V2:.*]] = stablehlo.add %[[V1]], %[[V1]]
// ROF-NEXT:  %[[V3:.*]] = stablehlo.multiply %arg0, %arg2
// ROF-NEXT:  %[[V4:.*]] = stablehlo.add %arg3, %arg3
// ROF-NEXT:  %[[V5:.*]] = stablehlo.multiply %arg1, %[[V4]]
// ROF-NEXT:  %[[V6:.*]] = stablehlo.add %[[V5]], %[[V3]]
// ROF-NEXT:  %[[V7:.*]] = stablehlo.add %[[V6]], %[[V3]]
// ROF-NEXT:  return %[[V0]], %[[V2]], %[[V7]]

// Reverse over reverse: (x, f.cotangent, f.cotangent.2, x.cotangent.cotangent).
// ROR-LABEL: func.func @main
// ROR-NEXT:  %[[V0:.*]] = stablehlo.multiply %arg0, %arg0
// ROR-NEXT:  %[[V1:.*]] = stablehlo.multiply %arg0, %arg1
// ROR-NEXT:  %[[V2:.*]] = stablehlo.add %[[V1]], %[[V1]]
// ROR-NEXT:  %[[V3:.*]] = stablehlo.multiply %arg0, %arg2
// ROR-NEXT:  %[[V4:.*]] = stablehlo.add %arg3, %arg3
// ROR-NEXT:  %[[V5:.*]] = stablehlo.multiply %arg1, %[[V4]]
// ROR-NEXT:  %[[V6:.*]] = stablehlo.add %[[V5]], %[[V3]]
// ROR-NEXT:  %[[V7:.*]] = stablehlo.add %[[V6]], %[[V3]]
// ROR-NEXT:  return %[[V0]], %[[V2]], %[[V7]]
