// RUN: tiduc jvp %s --wrt z | filecheck %s --check-prefix=F
// RUN: tiduc vjp %s --wrt z | filecheck %s --check-prefix=R
// RUN: tiduc jvp %s --wrt z | tiduc jvp - --wrt z | filecheck %s --check-prefix=FOF
// RUN: tiduc vjp %s --wrt z | tiduc jvp - --wrt z | filecheck %s --check-prefix=FOR
// RUN: tiduc jvp %s --wrt z | tiduc vjp - --wrt z | filecheck %s --check-prefix=ROF
// RUN: tiduc vjp %s --wrt z | tiduc vjp - --wrt z | filecheck %s --check-prefix=ROR

// f(z) = |z|^2

func.func @main(%z: tensor<complex<f64>> {tidu.name = "z"}) -> (tensor<f64> {tidu.name = "f"}) {
  %0 = stablehlo.real %z : (tensor<complex<f64>>) -> tensor<f64>
  %1 = stablehlo.imag %z : (tensor<complex<f64>>) -> tensor<f64>
  %2 = stablehlo.multiply %0, %0 : tensor<f64>
  %3 = stablehlo.multiply %1, %1 : tensor<f64>
  %4 = stablehlo.add %2, %3 : tensor<f64>
  return %4 : tensor<f64>
}

// Forward: (z, z.tangent).
// F-LABEL: func.func @main
// F-NEXT:  %[[V0:.*]] = stablehlo.imag %arg0 : (tensor<complex<f64>>) -> tensor<f64>
// F-NEXT:  %[[V1:.*]] = stablehlo.multiply %[[V0]], %[[V0]]
// F-NEXT:  %[[V2:.*]] = stablehlo.real %arg0 : (tensor<complex<f64>>) -> tensor<f64>
// F-NEXT:  %[[V3:.*]] = stablehlo.multiply %[[V2]], %[[V2]]
// F-NEXT:  %[[V4:.*]] = stablehlo.add %[[V3]], %[[V1]]
// F-NEXT:  %[[V5:.*]] = stablehlo.imag %arg1 : (tensor<complex<f64>>) -> tensor<f64>
// F-NEXT:  %[[V6:.*]] = stablehlo.multiply %[[V0]], %[[V5]]
// F-NEXT:  %[[V7:.*]] = stablehlo.add %[[V6]], %[[V6]]
// F-NEXT:  %[[V8:.*]] = stablehlo.real %arg1 : (tensor<complex<f64>>) -> tensor<f64>
// F-NEXT:  %[[V9:.*]] = stablehlo.multiply %[[V2]], %[[V8]]
// F-NEXT:  %[[V10:.*]] = stablehlo.add %[[V9]], %[[V9]]
// F-NEXT:  %[[V11:.*]] = stablehlo.add %[[V10]], %[[V7]]
// F-NEXT:  return %[[V4]], %[[V11]]

// Reverse: (z, f.cotangent).
// R-LABEL: func.func @main
// R-NEXT:  %[[V0:.*]] = stablehlo.imag %arg0 : (tensor<complex<f64>>) -> tensor<f64>
// R-NEXT:  %[[V1:.*]] = stablehlo.multiply %[[V0]], %[[V0]]
// R-NEXT:  %[[V2:.*]] = stablehlo.real %arg0 : (tensor<complex<f64>>) -> tensor<f64>
// R-NEXT:  %[[V3:.*]] = stablehlo.multiply %[[V2]], %[[V2]]
// R-NEXT:  %[[V4:.*]] = stablehlo.add %[[V3]], %[[V1]]
// R-NEXT:  %[[V5:.*]] = stablehlo.multiply %[[V0]], %arg1
// R-NEXT:  %[[V6:.*]] = stablehlo.add %[[V5]], %[[V5]]
// R-NEXT:  %[[V7:.*]] = stablehlo.multiply %[[V2]], %arg1
// R-NEXT:  %[[V8:.*]] = stablehlo.add %[[V7]], %[[V7]]
// R-NEXT:  %[[V9:.*]] = stablehlo.complex %[[V8]], %[[V6]]
// R-NEXT:  return %[[V4]], %[[V9]]

// Forward over forward: (z, z.tangent, z.tangent.2).
// FOF-LABEL: func.func @main
// FOF-NEXT:  %[[V0:.*]] = stablehlo.imag %arg0 : (tensor<complex<f64>>) -> tensor<f64>
// FOF-NEXT:  %[[V1:.*]] = stablehlo.multiply %[[V0]], %[[V0]]
// FOF-NEXT:  %[[V2:.*]] = stablehlo.real %arg0 : (tensor<complex<f64>>) -> tensor<f64>
// FOF-NEXT:  %[[V3:.*]] = stablehlo.multiply %[[V2]], %[[V2]]
// FOF-NEXT:  %[[V4:.*]] = stablehlo.add %[[V3]], %[[V1]]
// FOF-NEXT:  %[[V5:.*]] = stablehlo.imag %arg1 : (tensor<complex<f64>>) -> tensor<f64>
// FOF-NEXT:  %[[V6:.*]] = stablehlo.multiply %[[V0]], %[[V5]]
// FOF-NEXT:  %[[V7:.*]] = stablehlo.add %[[V6]], %[[V6]]
// FOF-NEXT:  %[[V8:.*]] = stablehlo.real %arg1 : (tensor<complex<f64>>) -> tensor<f64>
// FOF-NEXT:  %[[V9:.*]] = stablehlo.multiply %[[V2]], %[[V8]]
// FOF-NEXT:  %[[V10:.*]] = stablehlo.add %[[V9]], %[[V9]]
// FOF-NEXT:  %[[V11:.*]] = stablehlo.add %[[V10]], %[[V7]]
// FOF-NEXT:  %[[V12:.*]] = stablehlo.imag %arg2 : (tensor<complex<f64>>) -> tensor<f64>
// FOF-NEXT:  %[[V13:.*]] = stablehlo.multiply %[[V0]], %[[V12]]
// FOF-NEXT:  %[[V14:.*]] = stablehlo.add %[[V13]], %[[V13]]
// FOF-NEXT:  %[[V15:.*]] = stablehlo.real %arg2 : (tensor<complex<f64>>) -> tensor<f64>
// FOF-NEXT:  %[[V16:.*]] = stablehlo.multiply %[[V2]], %[[V15]]
// FOF-NEXT:  %[[V17:.*]] = stablehlo.add %[[V16]], %[[V16]]
// FOF-NEXT:  %[[V18:.*]] = stablehlo.add %[[V17]], %[[V14]]
// FOF-NEXT:  %[[V19:.*]] = stablehlo.multiply %[[V12]], %[[V5]]
// FOF-NEXT:  %[[V20:.*]] = stablehlo.add %[[V19]], %[[V19]]
// FOF-NEXT:  %[[V21:.*]] = stablehlo.multiply %[[V15]], %[[V8]]
// FOF-NEXT:  %[[V22:.*]] = stablehlo.add %[[V21]], %[[V21]]
// FOF-NEXT:  %[[V23:.*]] = stablehlo.add %[[V22]], %[[V20]]
// FOF-NEXT:  return %[[V4]], %[[V11]], %[[V18]], %[[V23]]

// Forward over reverse: (z, f.cotangent, z.tangent).
// FOR-LABEL: func.func @main
// FOR-NEXT:  %[[V0:.*]] = stablehlo.imag %arg0 : (tensor<complex<f64>>) -> tensor<f64>
// FOR-NEXT:  %[[V1:.*]] = stablehlo.multiply %[[V0]], %[[V0]]
// FOR-NEXT:  %[[V2:.*]] = stablehlo.real %arg0 : (tensor<complex<f64>>) -> tensor<f64>
// FOR-NEXT:  %[[V3:.*]] = stablehlo.multiply %[[V2]], %[[V2]]
// FOR-NEXT:  %[[V4:.*]] = stablehlo.add %[[V3]], %[[V1]]
// FOR-NEXT:  %[[V5:.*]] = stablehlo.multiply %[[V0]], %arg1
// FOR-NEXT:  %[[V6:.*]] = stablehlo.add %[[V5]], %[[V5]]
// FOR-NEXT:  %[[V7:.*]] = stablehlo.multiply %[[V2]], %arg1
// FOR-NEXT:  %[[V8:.*]] = stablehlo.add %[[V7]], %[[V7]]
// FOR-NEXT:  %[[V9:.*]] = stablehlo.complex %[[V8]], %[[V6]]
// FOR-NEXT:  %[[V10:.*]] = stablehlo.imag %arg2 : (tensor<complex<f64>>) -> tensor<f64>
// FOR-NEXT:  %[[V11:.*]] = stablehlo.multiply %[[V0]], %[[V10]]
// FOR-NEXT:  %[[V12:.*]] = stablehlo.add %[[V11]], %[[V11]]
// FOR-NEXT:  %[[V13:.*]] = stablehlo.real %arg2 : (tensor<complex<f64>>) -> tensor<f64>
// FOR-NEXT:  %[[V14:.*]] = stablehlo.multiply %[[V2]], %[[V13]]
// FOR-NEXT:  %[[V15:.*]] = stablehlo.add %[[V14]], %[[V14]]
// FOR-NEXT:  %[[V16:.*]] = stablehlo.add %[[V15]], %[[V12]]
// FOR-NEXT:  %[[V17:.*]] = stablehlo.multiply %[[V10]], %arg1
// FOR-NEXT:  %[[V18:.*]] = stablehlo.add %[[V17]], %[[V17]]
// FOR-NEXT:  %[[V19:.*]] = stablehlo.multiply %[[V13]], %arg1
// FOR-NEXT:  %[[V20:.*]] = stablehlo.add %[[V19]], %[[V19]]
// FOR-NEXT:  %[[V21:.*]] = stablehlo.complex %[[V20]], %[[V18]]
// FOR-NEXT:  return %[[V4]], %[[V9]], %[[V16]], %[[V21]]

// Reverse over forward: (z, z.tangent, f.cotangent, f.tangent.cotangent).
// ROF-LABEL: func.func @main
// ROF-NEXT:  %[[V0:.*]] = stablehlo.imag %arg0 : (tensor<complex<f64>>) -> tensor<f64>
// ROF-NEXT:  %[[V1:.*]] = stablehlo.multiply %[[V0]], %[[V0]]
// ROF-NEXT:  %[[V2:.*]] = stablehlo.real %arg0 : (tensor<complex<f64>>) -> tensor<f64>
// ROF-NEXT:  %[[V3:.*]] = stablehlo.multiply %[[V2]], %[[V2]]
// ROF-NEXT:  %[[V4:.*]] = stablehlo.add %[[V3]], %[[V1]]
// ROF-NEXT:  %[[V5:.*]] = stablehlo.imag %arg1 : (tensor<complex<f64>>) -> tensor<f64>
// ROF-NEXT:  %[[V6:.*]] = stablehlo.multiply %[[V0]], %[[V5]]
// ROF-NEXT:  %[[V7:.*]] = stablehlo.add %[[V6]], %[[V6]]
// ROF-NEXT:  %[[V8:.*]] = stablehlo.real %arg1 : (tensor<complex<f64>>) -> tensor<f64>
// ROF-NEXT:  %[[V9:.*]] = stablehlo.multiply %[[V2]], %[[V8]]
// ROF-NEXT:  %[[V10:.*]] = stablehlo.add %[[V9]], %[[V9]]
// ROF-NEXT:  %[[V11:.*]] = stablehlo.add %[[V10]], %[[V7]]
// ROF-NEXT:  %[[V12:.*]] = stablehlo.multiply %[[V0]], %arg2
// ROF-NEXT:  %[[V13:.*]] = stablehlo.add %arg3, %arg3
// ROF-NEXT:  %[[V14:.*]] = stablehlo.multiply %[[V5]], %[[V13]]
// ROF-NEXT:  %[[V15:.*]] = stablehlo.add %[[V14]], %[[V12]]
// ROF-NEXT:  %[[V16:.*]] = stablehlo.add %[[V15]], %[[V12]]
// ROF-NEXT:  %[[V17:.*]] = stablehlo.multiply %[[V2]], %arg2
// ROF-NEXT:  %[[V18:.*]] = stablehlo.multiply %[[V8]], %[[V13]]
// ROF-NEXT:  %[[V19:.*]] = stablehlo.add %[[V18]], %[[V17]]
// ROF-NEXT:  %[[V20:.*]] = stablehlo.add %[[V19]], %[[V17]]
// ROF-NEXT:  %[[V21:.*]] = stablehlo.complex %[[V20]], %[[V16]]
// ROF-NEXT:  return %[[V4]], %[[V11]], %[[V21]]

// Reverse over reverse: (z, f.cotangent, f.cotangent.2, z.cotangent.cotangent).
// ROR-LABEL: func.func @main
// ROR-NEXT:  %[[V0:.*]] = stablehlo.imag %arg0 : (tensor<complex<f64>>) -> tensor<f64>
// ROR-NEXT:  %[[V1:.*]] = stablehlo.multiply %[[V0]], %[[V0]]
// ROR-NEXT:  %[[V2:.*]] = stablehlo.real %arg0 : (tensor<complex<f64>>) -> tensor<f64>
// ROR-NEXT:  %[[V3:.*]] = stablehlo.multiply %[[V2]], %[[V2]]
// ROR-NEXT:  %[[V4:.*]] = stablehlo.add %[[V3]], %[[V1]]
// ROR-NEXT:  %[[V5:.*]] = stablehlo.multiply %[[V0]], %arg1
// ROR-NEXT:  %[[V6:.*]] = stablehlo.add %[[V5]], %[[V5]]
// ROR-NEXT:  %[[V7:.*]] = stablehlo.multiply %[[V2]], %arg1
// ROR-NEXT:  %[[V8:.*]] = stablehlo.add %[[V7]], %[[V7]]
// ROR-NEXT:  %[[V9:.*]] = stablehlo.complex %[[V8]], %[[V6]]
// ROR-NEXT:  %[[V10:.*]] = stablehlo.multiply %[[V0]], %arg2
// ROR-NEXT:  %[[V11:.*]] = stablehlo.imag %arg3 : (tensor<complex<f64>>) -> tensor<f64>
// ROR-NEXT:  %[[V12:.*]] = stablehlo.add %[[V11]], %[[V11]]
// ROR-NEXT:  %[[V13:.*]] = stablehlo.multiply %arg1, %[[V12]]
// ROR-NEXT:  %[[V14:.*]] = stablehlo.add %[[V13]], %[[V10]]
// ROR-NEXT:  %[[V15:.*]] = stablehlo.add %[[V14]], %[[V10]]
// ROR-NEXT:  %[[V16:.*]] = stablehlo.multiply %[[V2]], %arg2
// ROR-NEXT:  %[[V17:.*]] = stablehlo.real %arg3 : (tensor<complex<f64>>) -> tensor<f64>
// ROR-NEXT:  %[[V18:.*]] = stablehlo.add %[[V17]], %[[V17]]
// ROR-NEXT:  %[[V19:.*]] = stablehlo.multiply %arg1, %[[V18]]
// ROR-NEXT:  %[[V20:.*]] = stablehlo.add %[[V19]], %[[V16]]
// ROR-NEXT:  %[[V21:.*]] = stablehlo.add %[[V20]], %[[V16]]
// ROR-NEXT:  %[[V22:.*]] = stablehlo.complex %[[V21]], %[[V15]]
// ROR-NEXT:  return %[[V4]], %[[V9]], %[[V22]]
