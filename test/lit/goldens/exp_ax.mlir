// RUN: tiduc jvp %s --wrt x | filecheck %s --check-prefix=F
// RUN: tiduc vjp %s --wrt x | filecheck %s --check-prefix=R
// RUN: tiduc jvp %s --wrt x | tiduc jvp - --wrt x | filecheck %s --check-prefix=FOF
// RUN: tiduc vjp %s --wrt x | tiduc jvp - --wrt x | filecheck %s --check-prefix=FOR
// RUN: tiduc jvp %s --wrt x | tiduc vjp - --wrt x | filecheck %s --check-prefix=ROF
// RUN: tiduc vjp %s --wrt x | tiduc vjp - --wrt x | filecheck %s --check-prefix=ROR
// RUN: tiduc jvp %s --wrt x | tiduc jvp - --wrt x | tiduc jvp - --wrt x | filecheck %s --check-prefix=FOFOF
// RUN: tiduc vjp %s --wrt x | tiduc jvp - --wrt x | tiduc jvp - --wrt x | filecheck %s --check-prefix=FOFOR

// f(a, x) = exp(a x)

func.func @main(%a: tensor<f64> {tidu.name = "a"}, %x: tensor<f64> {tidu.name = "x"}) -> (tensor<f64> {tidu.name = "f"}) {
  %0 = stablehlo.multiply %a, %x : tensor<f64>
  %1 = stablehlo.exponential %0 : tensor<f64>
  return %1 : tensor<f64>
}

// Forward: (a, x, x.tangent).
// F-LABEL: func.func @main
// F-NEXT:  %[[V0:.*]] = stablehlo.multiply %arg0, %arg1
// F-NEXT:  %[[V1:.*]] = stablehlo.exponential %[[V0]]
// F-NEXT:  %[[V2:.*]] = stablehlo.multiply %arg0, %arg2
// F-NEXT:  %[[V3:.*]] = stablehlo.multiply %[[V1]], %[[V2]]
// F-NEXT:  return %[[V1]], %[[V3]]

// Reverse: (a, x, f.cotangent).
// R-LABEL: func.func @main
// R-NEXT:  %[[V0:.*]] = stablehlo.multiply %arg0, %arg1
// R-NEXT:  %[[V1:.*]] = stablehlo.exponential %[[V0]]
// R-NEXT:  %[[V2:.*]] = stablehlo.multiply %[[V1]], %arg2
// R-NEXT:  %[[V3:.*]] = stablehlo.multiply %arg0, %[[V2]]
// R-NEXT:  return %[[V1]], %[[V3]]

// Forward over forward: (a, x, x.tangent, x.tangent.2).
// FOF-LABEL: func.func @main
// FOF-NEXT:  %[[V0:.*]] = stablehlo.multiply %arg0, %arg1
// FOF-NEXT:  %[[V1:.*]] = stablehlo.exponential %[[V0]]
// FOF-NEXT:  %[[V2:.*]] = stablehlo.multiply %arg0, %arg2
// FOF-NEXT:  %[[V3:.*]] = stablehlo.multiply %[[V1]], %[[V2]]
// FOF-NEXT:  %[[V4:.*]] = stablehlo.multiply %arg0, %arg3
// FOF-NEXT:  %[[V5:.*]] = stablehlo.multiply %[[V1]], %[[V4]]
// FOF-NEXT:  %[[V6:.*]] = stablehlo.multiply %[[V5]], %[[V2]]
// FOF-NEXT:  return %[[V1]], %[[V3]], %[[V5]], %[[V6]]

// Forward over reverse: (a, x, f.cotangent, x.tangent).
// FOR-LABEL: func.func @main
// FOR-NEXT:  %[[V0:.*]] = stablehlo.multiply %arg0, %arg1
// FOR-NEXT:  %[[V1:.*]] = stablehlo.exponential %[[V0]]
// FOR-NEXT:  %[[V2:.*]] = stablehlo.multiply %[[V1]], %arg2
// FOR-NEXT:  %[[V3:.*]] = stablehlo.multiply %arg0, %[[V2]]
// FOR-NEXT:  %[[V4:.*]] = stablehlo.multiply %arg0, %arg3
// FOR-NEXT:  %[[V5:.*]] = stablehlo.multiply %[[V1]], %[[V4]]
// FOR-NEXT:  %[[V6:.*]] = stablehlo.multiply %[[V5]], %arg2
// FOR-NEXT:  %[[V7:.*]] = stablehlo.multiply %arg0, %[[V6]]
// FOR-NEXT:  return %[[V1]], %[[V3]], %[[V5]], %[[V7]]

// Reverse over forward: (a, x, x.tangent, f.cotangent, f.tangent.cotangent).
// ROF-LABEL: func.func @main
// ROF-NEXT:  %[[V0:.*]] = stablehlo.multiply %arg0, %arg1
// ROF-NEXT:  %[[V1:.*]] = stablehlo.exponential %[[V0]]
// ROF-NEXT:  %[[V2:.*]] = stablehlo.multiply %arg0, %arg2
// ROF-NEXT:  %[[V3:.*]] = stablehlo.multiply %[[V1]], %[[V2]]
// ROF-NEXT:  %[[V4:.*]] = stablehlo.multiply %[[V2]], %arg4
// ROF-NEXT:  %[[V5:.*]] = stablehlo.add %arg3, %[[V4]]
// ROF-NEXT:  %[[V6:.*]] = stablehlo.multiply %[[V1]], %[[V5]]
// ROF-NEXT:  %[[V7:.*]] = stablehlo.multiply %arg0, %[[V6]]
// ROF-NEXT:  return %[[V1]], %[[V3]], %[[V7]]

// Reverse over reverse: (a, x, f.cotangent, f.cotangent.2, x.cotangent.cotangent).
// ROR-LABEL: func.func @main
// ROR-NEXT:  %[[V0:.*]] = stablehlo.multiply %arg0, %arg1
// ROR-NEXT:  %[[V1:.*]] = stablehlo.exponential %[[V0]]
// ROR-NEXT:  %[[V2:.*]] = stablehlo.multiply %[[V1]], %arg2
// ROR-NEXT:  %[[V3:.*]] = stablehlo.multiply %arg0, %[[V2]]
// ROR-NEXT:  %[[V4:.*]] = stablehlo.multiply %arg0, %arg4
// ROR-NEXT:  %[[V5:.*]] = stablehlo.multiply %arg2, %[[V4]]
// ROR-NEXT:  %[[V6:.*]] = stablehlo.add %arg3, %[[V5]]
// ROR-NEXT:  %[[V7:.*]] = stablehlo.multiply %[[V1]], %[[V6]]
// ROR-NEXT:  %[[V8:.*]] = stablehlo.multiply %arg0, %[[V7]]
// ROR-NEXT:  return %[[V1]], %[[V3]], %[[V8]]

// Forward over forward over forward: (a, x, x.tangent, x.tangent.2, x.tangent.3).
// FOFOF-LABEL: func.func @main
// FOFOF-NEXT:  %[[V0:.*]] = stablehlo.multiply %arg0, %arg1
// FOFOF-NEXT:  %[[V1:.*]] = stablehlo.exponential %[[V0]]
// FOFOF-NEXT:  %[[V2:.*]] = stablehlo.multiply %arg0, %arg2
// FOFOF-NEXT:  %[[V3:.*]] = stablehlo.multiply %[[V1]], %[[V2]]
// FOFOF-NEXT:  %[[V4:.*]] = stablehlo.multiply %arg0, %arg3
// FOFOF-NEXT:  %[[V5:.*]] = stablehlo.multiply %[[V1]], %[[V4]]
// FOFOF-NEXT:  %[[V6:.*]] = stablehlo.multiply %[[V5]], %[[V2]]
// FOFOF-NEXT:  %[[V7:.*]] = stablehlo.multiply %arg0, %arg4
// FOFOF-NEXT:  %[[V8:.*]] = stablehlo.multiply %[[V1]], %[[V7]]
// FOFOF-NEXT:  %[[V9:.*]] = stablehlo.multiply %[[V8]], %[[V2]]
// FOFOF-NEXT:  %[[V10:.*]] = stablehlo.multiply %[[V8]], %[[V4]]
// FOFOF-NEXT:  %[[V11:.*]] = stablehlo.multiply %[[V10]], %[[V2]]
// FOFOF-NEXT:  return %[[V1]], %[[V3]], %[[V5]], %[[V6]], %[[V8]], %[[V9]], %[[V10]], %[[V11]]

// Forward over forward over reverse: (a, x, f.cotangent, x.tangent, x.tangent.2).
// FOFOR-LABEL: func.func @main
// FOFOR-NEXT:  %[[V0:.*]] = stablehlo.multiply %arg0, %arg1
// FOFOR-NEXT:  %[[V1:.*]] = stablehlo.exponential %[[V0]]
// FOFOR-NEXT:  %[[V2:.*]] = stablehlo.multiply %[[V1]], %arg2
// FOFOR-NEXT:  %[[V3:.*]] = stablehlo.multiply %arg0, %[[V2]]
// FOFOR-NEXT:  %[[V4:.*]] = stablehlo.multiply %arg0, %arg3
// FOFOR-NEXT:  %[[V5:.*]] = stablehlo.multiply %[[V1]], %[[V4]]
// FOFOR-NEXT:  %[[V6:.*]] = stablehlo.multiply %[[V5]], %arg2
// FOFOR-NEXT:  %[[V7:.*]] = stablehlo.multiply %arg0, %[[V6]]
// FOFOR-NEXT:  %[[V8:.*]] = stablehlo.multiply %arg0, %arg4
// FOFOR-NEXT:  %[[V9:.*]] = stablehlo.multiply %[[V1]], %[[V8]]
// FOFOR-NEXT:  %[[V10:.*]] = stablehlo.multiply %[[V9]], %arg2
// FOFOR-NEXT:  %[[V11:.*]] = stablehlo.multiply %arg0, %[[V10]]
// FOFOR-NEXT:  %[[V12:.*]] = stablehlo.multiply %[[V9]], %[[V4]]
// FOFOR-NEXT:  %[[V13:.*]] = stablehlo.multiply %[[V12]], %arg2
// FOFOR-NEXT:  %[[V14:.*]] = stablehlo.multiply %arg0, %[[V13]]
// FOFOR-NEXT:  return %[[V1]], %[[V3]], %[[V5]], %[[V7]], %[[V9]], %[[V11]], %[[V12]], %[[V14]]
