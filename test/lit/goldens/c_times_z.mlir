// RUN: tiduc jvp %s --wrt z | filecheck %s --check-prefix=F
// RUN: tiduc vjp %s --wrt z | filecheck %s --check-prefix=R
// RUN: tiduc jvp %s --wrt z | tiduc jvp - --wrt z | filecheck %s --check-prefix=FOF
// RUN: tiduc vjp %s --wrt z | tiduc jvp - --wrt z | filecheck %s --check-prefix=FOR
// RUN: tiduc jvp %s --wrt z | tiduc vjp - --wrt z | filecheck %s --check-prefix=ROF
// RUN: tiduc vjp %s --wrt z | tiduc vjp - --wrt z | filecheck %s --check-prefix=ROR

// f(c, z) = c z, complex: the transpose conjugates c

func.func @main(%c: tensor<complex<f64>> {tidu.name = "c"}, %z: tensor<complex<f64>> {tidu.name = "z"}) -> (tensor<complex<f64>> {tidu.name = "f"}) {
  %0 = stablehlo.multiply %c, %z : tensor<complex<f64>>
  return %0 : tensor<complex<f64>>
}

// Forward: (c, z, z.tangent).
// F-LABEL: func.func @main
// F-NEXT:  %[[V0:.*]] = stablehlo.multiply %arg0, %arg1
// F-NEXT:  %[[V1:.*]] = stablehlo.multiply %arg0, %arg2
// F-NEXT:  return %[[V0]], %[[V1]]

// Reverse: (c, z, f.cotangent).
// R-LABEL: func.func @main
// R-NEXT:  %[[V0:.*]] = stablehlo.multiply %arg0, %arg1
// R-NEXT:  %[[V1:.*]] = chlo.conj %arg0
// R-NEXT:  %[[V2:.*]] = stablehlo.multiply %[[V1]], %arg2
// R-NEXT:  return %[[V0]], %[[V2]]

// Forward over forward: (c, z, z.tangent, z.tangent.2).
// FOF-LABEL: func.func @main
// FOF-NEXT:  %[[CST:.*]] = stablehlo.constant dense<(0.000000e+00,0.000000e+00)> : tensor<complex<f64>>
// FOF-NEXT:  %[[V0:.*]] = stablehlo.multiply %arg0, %arg1
// FOF-NEXT:  %[[V1:.*]] = stablehlo.multiply %arg0, %arg2
// FOF-NEXT:  %[[V2:.*]] = stablehlo.multiply %arg0, %arg3
// FOF-NEXT:  return %[[V0]], %[[V1]], %[[V2]], %[[CST]]

// Forward over reverse: (c, z, f.cotangent, z.tangent).
// FOR-LABEL: func.func @main
// FOR-NEXT:  %[[CST:.*]] = stablehlo.constant dense<(0.000000e+00,0.000000e+00)> : tensor<complex<f64>>
// FOR-NEXT:  %[[V0:.*]] = stablehlo.multiply %arg0, %arg1
// FOR-NEXT:  %[[V1:.*]] = chlo.conj %arg0
// FOR-NEXT:  %[[V2:.*]] = stablehlo.multiply %[[V1]], %arg2
// FOR-NEXT:  %[[V3:.*]] = stablehlo.multiply %arg0, %arg3
// FOR-NEXT:  return %[[V0]], %[[V2]], %[[V3]], %[[CST]]

// Reverse over forward: (c, z, z.tangent, f.cotangent, f.tangent.cotangent).
// ROF-LABEL: func.func @main
// ROF-NEXT:  %[[V0:.*]] = stablehlo.multiply %arg0, %arg1
// ROF-NEXT:  %[[V1:.*]] = stablehlo.multiply %arg0, %arg2
// ROF-NEXT:  %[[V2:.*]] = chlo.conj %arg0
// ROF-NEXT:  %[[V3:.*]] = stablehlo.multiply %[[V2]], %arg3
// ROF-NEXT:  return %[[V0]], %[[V1]], %[[V3]]

// Reverse over reverse: (c, z, f.cotangent, f.cotangent.2, z.cotangent.cotangent).
// ROR-LABEL: func.func @main
// ROR-NEXT:  %[[V0:.*]] = stablehlo.multiply %arg0, %arg1
// ROR-NEXT:  %[[V1:.*]] = chlo.conj %arg0
// ROR-NEXT:  %[[V2:.*]] = stablehlo.multiply %[[V1]], %arg2
// ROR-NEXT:  %[[V3:.*]] = stablehlo.multiply %[[V1]], %arg3
// ROR-NEXT:  return %[[V0]], %[[V2]], %[[V3]]
