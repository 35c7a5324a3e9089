// RUN: tiduc jvp %s --wrt x | filecheck %s --check-prefix=F
// RUN: tiduc vjp %s --wrt x | filecheck %s --check-prefix=R
// RUN: tiduc jvp %s --wrt x | tiduc jvp - --wrt x | filecheck %s --check-prefix=FOF
// RUN: tiduc vjp %s --wrt x | tiduc jvp - --wrt x | filecheck %s --check-prefix=FOR
// RUN: tiduc jvp %s --wrt x | tiduc vjp - --wrt x | filecheck %s --check-prefix=ROF
// RUN: tiduc vjp %s --wrt x | tiduc vjp - --wrt x | filecheck %s --check-prefix=ROR
// RUN: tiduc jvp %s --wrt x | tiduc jvp - --wrt x | tiduc jvp - --wrt x | filecheck %s --check-prefix=FOFOF
// RUN: tiduc vjp %s --wrt x | tiduc jvp - --wrt x | tiduc jvp - --wrt x | filecheck %s --check-prefix=FOFOR

// f(x) = x^3

func.func @main(%x: tensor<f64> {tidu.name = "x"}) -> (tensor<f64> {tidu.name = "f"}) {
  %0 = stablehlo.multiply %x, %x : tensor<f64>
  %1 = stablehlo.multiply %0, %x : tensor<f64>
  return %1 : tensor<f64>
}

// Forward: (x, x.tangent).
// F-LABEL: func.func @main
// F-NEXT:  %[[V0:.*]] = stablehlo.multiply %arg0, %arg0
// F-NEXT:  %[[V1:.*]] = stablehlo.multiply %[[V0]], %arg0
// F-NEXT:  %[[V2:.*]] = stablehlo.multiply %[[V0]], %arg1
// F-NEXT:  %[[V3:.*]] = stablehlo.multiply %arg0, %arg1
// F-NEXT:  %[[V4:.*]] = stablehlo.add %[[V3]], %[[V3]]
// F-NEXT:  %[[V5:.*]] = stablehlo.multiply %[[V4]], %arg0
// F-NEXT:  %[[V6:.*]] = stablehlo.add %[[V5]], %[[V2]]
// F-NEXT:  return %[[V1]], %[[V6]]

// Reverse: (x, f.cotangent).
// R-LABEL: func.func @main
// R-NEXT:  %[[V0:.*]] = stablehlo.multiply %arg0, %arg0
// R-NEXT:  %[[V1:.*]] = stablehlo.multiply %[[V0]], %arg0
// R-NEXT:  %[[V2:.*]] = stablehlo.multiply %arg0, %arg1
// R-NEXT:  %[[V3:.*]] = stablehlo.multiply %arg0, %[[V2]]
// R-NEXT:  %[[V4:.*]] = stablehlo.multiply %[[V0]], %arg1
// R-NEXT:  %[[V5:.*]] = stablehlo.add %[[V4]], %[[V3]]
// R-NEXT:  %[[V6:.*]] = stablehlo.add %[[V5]], %[[V3]]
// R-NEXT:  return %[[V1]], %[[V6]]

// Forward over forward: (x, x.tangent, x.tangent.2).
// FOF-LABEL: func.func @main
// FOF-NEXT:  %[[V0:.*]] = stablehlo.multiply %arg0, %arg0
// FOF-NEXT:  %[[V1:.*]] = stablehlo.multiply %[[V0]], %arg0
// FOF-NEXT:  %[[V2:.*]] = stablehlo.multiply %[[V0]], %arg1
// FOF-NEXT:  %[[V3:.*]] = stablehlo.multiply %arg0, %arg1
// FOF-NEXT:  %[[V4:.*]] = stablehlo.add %[[V3]], %[[V3]]
// FOF-NEXT:  %[[V5:.*]] = stablehlo.multiply %[[V4]], %arg0
// FOF-NEXT:  %[[V6:.*]] = stablehlo.add %[[V5]], %[[V2]]
// FOF-NEXT:  %[[V7:.*]] = stablehlo.multiply %[[V0]], %arg2
// FOF-NEXT:  %[[V8:.*]] = stablehlo.multiply %arg0, %arg2
// FOF-NEXT:  %[[V9:.*]] = stablehlo.add %[[V8]], %[[V8]]
// FOF-NEXT:  %[[V10:.*]] = stablehlo.multiply %[[V9]], %arg0
// FOF-NEXT:  %[[V11:.*]] = stablehlo.add %[[V10]], %[[V7]]
// FOF-NEXT:  %[[V12:.*]] = stablehlo.multiply %[[V9]], %arg1
// FOF-NEXT:  %[[V13:.*]] = stablehlo.multiply %[[V4]], %arg2
// FOF-NEXT:  %[[V14:.*]] = stablehlo.multiply %arg2, %arg1
// FOF-NEXT:  %[[V15:.*]] = stablehlo.add %[[V14]], %[[V14]]
// FOF-NEXT:  %[[V16:.*]] = stablehlo.multiply %[[V15]], %arg0
// FOF-NEXT:  %[[V17:.*]] = stablehlo.add %[[V16]], %[[V13]]
// FOF-NEXT:  %[[V18:.*]] = stablehlo.add %[[V17]], %[[V12]]
// FOF-NEXT:  return %[[V1]], %[[V6]], %[[V11]], %[[V18]]

// Forward over reverse: (x, f.cotangent, x.tangent).
// FOR-LABEL: func.func @main
// FOR-NEXT:  %[[V0:.*]] = stablehlo.multiply %arg0, %arg0
// FOR-NEXT:  %[[V1:.*]] = stablehlo.multiply %[[V0]], %arg0
// FOR-NEXT:  %[[V2:.*]] = stablehlo.multiply %arg0, %arg1
// FOR-NEXT:  %[[V3:.*]] = stablehlo.multiply %arg0, %[[V2]]
// FOR-NEXT:  %[[V4:.*]] = stablehlo.multiply %[[V0]], %arg1
// FOR-NEXT:  %[[V5:.*]] = stablehlo.add %[[V4]], %[[V3]]
// FOR-NEXT:  %[[V6:.*]] = stablehlo.add %[[V5]], %[[V3]]
// FOR-NEXT:  %[[V7:.*]] = stablehlo.multiply %[[V0]], %arg2
// FOR-NEXT:  %[[V8:.*]] = stablehlo.multiply %arg0, %arg2
// FOR-NEXT:  %[[V9:.*]] = stablehlo.add %[[V8]], %[[V8]]
// FOR-NEXT:  %[[V10:.*]] = stablehlo.multiply %[[V9]], %arg0
// FOR-NEXT:  %[[V11:.*]] = stablehlo.add %[[V10]], %[[V7]]
// FOR-NEXT:  %[[V12:.*]] = stablehlo.multiply %arg2, %arg1
// FOR-NEXT:  %[[V13:.*]] = stablehlo.multiply %arg0, %[[V12]]
// FOR-NEXT:  %[[V14:.*]] = stablehlo.multiply %arg2, %[[V2]]
// FOR-NEXT:  %[[V15:.*]] = stablehlo.add %[[V14]], %[[V13]]
// FOR-NEXT:  %[[V16:.*]] = stablehlo.multiply %[[V9]], %arg1
// FOR-NEXT:  %[[V17:.*]] = stablehlo.add %[[V16]], %[[V15]]
// FOR-NEXT:  %[[V18:.*]] = stablehlo.add %[[V17]], %[[V15]]
// FOR-NEXT:  return %[[V1]], %[[V6]], %[[V11]], %[[V18]]

// Reverse over forward: (x, x.tangent, f.cotangent, f.tangent.cotangent).
// ROF-LABEL: func.func @main
// ROF-NEXT:  %[[V0:.*]] = stablehlo.multiply %arg0, %arg0
// ROF-NEXT:  %[[V1:.*]] = stablehlo.multiply %[[V0]], %arg0
// ROF-NEXT:  %[[V2:.*]] = stablehlo.multiply %[[V0]], %arg1
// ROF-NEXT:  %[[V3:.*]] = stablehlo.multiply %arg0, %arg1
// ROF-NEXT:  %[[V4:.*]] = stablehlo.add %[[V3]], %[[V3]]
// ROF-NEXT:  %[[V5:.*]] = stablehlo.multiply %[[V4]], %arg0
// ROF-NEXT:  %[[V6:.*]] = stablehlo.add %[[V5]], %[[V2]]
// ROF-NEXT:  %[[V7:.*]] = stablehlo.multiply %arg0, %arg2
// ROF-NEXT:  %[[V8:.*]] = stablehlo.multiply %arg1, %arg3
// ROF-NEXT:  %[[V9:.*]] = stablehlo.add %[[V8]], %[[V7]]
// ROF-NEXT:  %[[V10:.*]] = stablehlo.multiply %arg0, %[[V9]]
// ROF-NEXT:  %[[V11:.*]] = stablehlo.multiply %[[V0]], %arg2
// ROF-NEXT:  %[[V12:.*]] = stablehlo.multiply %arg0, %arg3
// ROF-NEXT:  %[[V13:.*]] = stablehlo.add %[[V12]], %[[V12]]
// ROF-NEXT:  %[[V14:.*]] = stablehlo.multiply %arg1, %[[V13]]
// ROF-NEXT:  %[[V15:.*]] = stablehlo.multiply %[[V4]], %arg3
// ROF-NEXT:  %[[V16:.*]] = stablehlo.add %[[V15]], %[[V14]]
// ROF-NEXT:  %[[V17:.*]] = stablehlo.add %[[V16]], %[[V11]]
// ROF-NEXT:  %[[V18:.*]] = stablehlo.add %[[V17]], %[[V10]]
// ROF-NEXT:  %[[V19:.*]] = stablehlo.add %[[V18]], %[[V10]]
// ROF-NEXT:  return %[[V1]], %[[V6]], %[[V19]]

// Reverse over reverse: (x, f.cotangent, f.cotangent.2, x.cotangent.cotangent).
// ROR-LABEL: func.func @main
// ROR-NEXT:  %[[V0:.*]] = stablehlo.multiply %arg0, %arg0
// ROR-NEXT:  %[[V1:.*]] = stablehlo.multiply %[[V0]], %arg0
// ROR-NEXT:  %[[V2:.*]] = stablehlo.multiply %arg0, %arg1
// ROR-NEXT:  %[[V3:.*]] = stablehlo.multiply %arg0, %[[V2]]
// ROR-NEXT:  %[[V4:.*]] = stablehlo.multiply %[[V0]], %arg1
// ROR-NEXT:  %[[V5:.*]] = stablehlo.add %[[V4]], %[[V3]]
// ROR-NEXT:  %[[V6:.*]] = stablehlo.add %[[V5]], %[[V3]]
// ROR-NEXT:  %[[V7:.*]] = stablehlo.multiply %arg0, %arg2
// ROR-NEXT:  %[[V8:.*]] = stablehlo.multiply %arg1, %arg3
// ROR-NEXT:  %[[V9:.*]] = stablehlo.add %[[V8]], %[[V7]]
// ROR-NEXT:  %[[V10:.*]] = stablehlo.multiply %arg0, %[[V9]]
// ROR-NEXT:  %[[V11:.*]] = stablehlo.multiply %[[V0]], %arg2
// ROR-NEXT:  %[[V12:.*]] = stablehlo.add %arg3, %arg3
// ROR-NEXT:  %[[V13:.*]] = stablehlo.multiply %arg0, %[[V12]]
// ROR-NEXT:  %[[V14:.*]] = stablehlo.multiply %arg1, %[[V13]]
// ROR-NEXT:  %[[V15:.*]] = stablehlo.multiply %[[V2]], %[[V12]]
// ROR-NEXT:  %[[V16:.*]] = stablehlo.add %[[V15]], %[[V14]]
// ROR-NEXT:  %[[V17:.*]] = stablehlo.add %[[V16]], %[[V11]]
// ROR-NEXT:  %[[V18:.*]] = stablehlo.add %[[V17]], %[[V10]]
// ROR-NEXT:  %[[V19:.*]] = stablehlo.add %[[V18]], %[[V10]]
// ROR-NEXT:  return %[[V1]], %[[V6]], %[[V19]]

// Forward over forward over forward: (x, x.tangent, x.tangent.2, x.tangent.3).
// FOFOF-LABEL: func.func @main
// FOFOF-NEXT:  %[[V0:.*]] = stablehlo.multiply %arg0, %arg0
// FOFOF-NEXT:  %[[V1:.*]] = stablehlo.multiply %[[V0]], %arg0
// FOFOF-NEXT:  %[[V2:.*]] = stablehlo.multiply %[[V0]], %arg1
// FOFOF-NEXT:  %[[V3:.*]] = stablehlo.multiply %arg0, %arg1
// FOFOF-NEXT:  %[[V4:.*]] = stablehlo.add %[[V3]], %[[V3]]
// FOFOF-NEXT:  %[[V5:.*]] = stablehlo.multiply %[[V4]], %arg0
// FOFOF-NEXT:  %[[V6:.*]] = stablehlo.add %[[V5]], %[[V2]]
// FOFOF-NEXT:  %[[V7:.*]] = stablehlo.multiply %[[V0]], %arg2
// FOFOF-NEXT:  %[[V8:.*]] = stablehlo.multiply %arg0, %arg2
// FOFOF-NEXT:  %[[V9:.*]] = stablehlo.add %[[V8]], %[[V8]]
// FOFOF-NEXT:  %[[V10:.*]] = stablehlo.multiply %[[V9]], %arg0
// FOFOF-NEXT:  %[[V11:.*]] = stablehlo.add %[[V10]], %[[V7]]
// FOFOF-NEXT:  %[[V12:.*]] = stablehlo.multiply %[[V9]], %arg1
// FOFOF-NEXT:  %[[V13:.*]] = stablehlo.multiply %[[V4]], %arg2
// FOFOF-NEXT:  %[[V14:.*]] = stablehlo.multiply %arg2, %arg1
// FOFOF-NEXT:  %[[V15:.*]] = stablehlo.add %[[V14]], %[[V14]]
// FOFOF-NEXT:  %[[V16:.*]] = stablehlo.multiply %[[V15]], %arg0
// FOFOF-NEXT:  %[[V17:.*]] = stablehlo.add %[[V16]], %[[V13]]
// FOFOF-NEXT:  %[[V18:.*]] = stablehlo.add %[[V17]], %[[V12]]
// FOFOF-NEXT:  %[[V19:.*]] = stablehlo.multiply %[[V0]], %arg3
// FOFOF-NEXT:  %[[V20:.*]] = stablehlo.multiply %arg0, %arg3
// FOFOF-NEXT:  %[[V21:.*]] = stablehlo.add %[[V20]], %[[V20]]
// FOFOF-NEXT:  %[[V22:.*]] = stablehlo.multiply %[[V21]], %arg0
// FOFOF-NEXT:  %[[V23:.*]] = stablehlo.add %[[V22]], %[[V19]]
// FOFOF-NEXT:  %[[V24:.*]] = stablehlo.multiply %[[V21]], %arg1
// FOFOF-NEXT:  %[[V25:.*]] = stablehlo.multiply %[[V4]], %arg3
// FOFOF-NEXT:  %[[V26:.*]] = stablehlo.multiply %arg3, %arg1
// FOFOF-NEXT:  %[[V27:.*]] = stablehlo.add %[[V26]], %[[V26]]
// FOFOF-NEXT:  %[[V28:.*]] = stablehlo.multiply %[[V27]], %arg0
// FOFOF-NEXT:  %[[V29:.*]] = stablehlo.add %[[V28]], %[[V25]]
// FOFOF-NEXT:  %[[V30:.*]] = stablehlo.add %[[V29]], %[[V24]]
// FOFOF-NEXT:  %[[V31:.*]] = stablehlo.multiply %[[V21]], %arg2
// FOFOF-NEXT:  %[[V32:.*]] = stablehlo.multiply %[[V9]], %arg3
// FOFOF-NEXT:  %[[V33:.*]] = stablehlo.multiply %arg3, %arg2
// FOFOF-NEXT:  %[[V34:.*]] = stablehlo.add %[[V33]], %[[V33]]
// FOFOF-NEXT:  %[[V35:.*]] = stablehlo.multiply %[[V34]], %arg0
// FOFOF-NEXT:  %[[V36:.*]] = stablehlo.add %[[V35]], %[[V32]]
// FOFOF-NEXT:  %[[V37:.*]] = stablehlo.add %[[V36]], %[[V31]]
// FOFOF-NEXT:  %[[V38:.*]] = stablehlo.multiply %[[V34]], %arg1
// FOFOF-NEXT:  %[[V39:.*]] = stablehlo.multiply %[[V27]], %arg2
// FOFOF-NEXT:  %[[V40:.*]] = stablehlo.multiply %[[V15]], %arg3
// FOFOF-NEXT:  %[[V41:.*]] = stablehlo.add %[[V40]], %[[V39]]
// FOFOF-NEXT:  %[[V42:.*]] = stablehlo.add %[[V41]], %[[V38]]
// FOFOF-NEXT:  return %[[V1]], %[[V6]], %[[V11]], %[[V18]], %[[V23]], %[[V30]], %[[V37]], %[[V42]]

// Forward over forward over reverse: (x, f.cotangent, x.tangent, x.tangent.2).
// FOFOR-LABEL: func.func @main
// FOFOR-NEXT:  %[[V0:.*]] = stablehlo.multiply %arg0, %arg0
// FOFOR-NEXT:  %[[V1:.*]] = stablehlo.multiply %[[V0]], %arg0
// FOFOR-NEXT:  %[[V2:.*]] = stablehlo.multiply %arg0, %arg1
// FOFOR-NEXT:  %[[V3:.*]] = stablehlo.multiply %arg0, %[[V2]]
// FOFOR-NEXT:  %[[V4:.*]] = stablehlo.multiply %[[V0]], %arg1
// FOFOR-NEXT:  %[[V5:.*]] = stablehlo.add %[[V4]], %[[V3]]
// FOFOR-NEXT:  %[[V6:.*]] = stablehlo.add %[[V5]], %[[V3]]
// FOFOR-NEXT:  %[[V7:.*]] = stablehlo.multiply %[[V0]], %arg2
// FOFOR-NEXT:  %[[V8:.*]] = stablehlo.multiply %arg0, %arg2
// FOFOR-NEXT:  %[[V9:.*]] = stablehlo.add %[[V8]], %[[V8]]
// FOFOR-NEXT:  %[[V10:.*]] = stablehlo.multiply %[[V9]], %arg0
// FOFOR-NEXT:  %[[V11:.*]] = stablehlo.add %[[V10]], %[[V7]]
// FOFOR-NEXT:  %[[V12:.*]] = stablehlo.multiply %arg2, %arg1
// FOFOR-NEXT:  %[[V13:.*]] = stablehlo.multiply %arg0, %[[V12]]
// FOFOR-NEXT:  %[[V14:.*]] = stablehlo.multiply %arg2, %[[V2]]
// FOFOR-NEXT:  %[[V15:.*]] = stablehlo.add %[[V14]], %[[V13]]
// FOFOR-NEXT:  %[[V16:.*]] = stablehlo.multiply %[[V9]], %arg1
// FOFOR-NEXT:  %[[V17:.*]] = stablehlo.add %[[V16]], %[[V15]]
// FOFOR-NEXT:  %[[V18:.*]] = stablehlo.add %[[V17]], %[[V15]]
// FOFOR-NEXT:  %[[V19:.*]] = stablehlo.multiply %[[V0]], %arg3
// FOFOR-NEXT:  %[[V20:.*]] = stablehlo.multiply %arg0, %arg3
// FOFOR-NEXT:  %[[V21:.*]] = stablehlo.add %[[V20]], %[[V20]]
// FOFOR-NEXT:  %[[V22:.*]] = stablehlo.multiply %[[V21]], %arg0
// FOFOR-NEXT:  %[[V23:.*]] = stablehlo.add %[[V22]], %[[V19]]
// FOFOR-NEXT:  %[[V24:.*]] = stablehlo.multiply %arg3, %arg1
// FOFOR-NEXT:  %[[V25:.*]] = stablehlo.multiply %arg0, %[[V24]]
// FOFOR-NEXT:  %[[V26:.*]] = stablehlo.multiply %arg3, %[[V2]]
// FOFOR-NEXT:  %[[V27:.*]] = stablehlo.add %[[V26]], %[[V25]]
// FOFOR-NEXT:  %[[V28:.*]] = stablehlo.multiply %[[V21]], %arg1
// FOFOR-NEXT:  %[[V29:.*]] = stablehlo.add %[[V28]], %[[V27]]
// FOFOR-NEXT:  %[[V30:.*]] = stablehlo.add %[[V29]], %[[V27]]
// FOFOR-NEXT:  %[[V31:.*]] = stablehlo.multiply %[[V21]], %arg2
// FOFOR-NEXT:  %[[V32:.*]] = stablehlo.multiply %[[V9]], %arg3
// FOFOR-NEXT:  %[[V33:.*]] = stablehlo.multiply %arg3, %arg2
// FOFOR-NEXT:  %[[V34:.*]] = stablehlo.add %[[V33]], %[[V33]]
// FOFOR-NEXT:  %[[V35:.*]] = stablehlo.multiply %[[V34]], %arg0
// FOFOR-NEXT:  %[[V36:.*]] = stablehlo.add %[[V35]], %[[V32]]
// FOFOR-NEXT:  %[[V37:.*]] = stablehlo.add %[[V36]], %[[V31]]
// FOFOR-NEXT:  %[[V38:.*]] = stablehlo.multiply %arg3, %[[V12]]
// FOFOR-NEXT:  %[[V39:.*]] = stablehlo.multiply %arg2, %[[V24]]
// FOFOR-NEXT:  %[[V40:.*]] = stablehlo.add %[[V39]], %[[V38]]
// FOFOR-NEXT:  %[[V41:.*]] = stablehlo.multiply %[[V34]], %arg1
// FOFOR-NEXT:  %[[V42:.*]] = stablehlo.add %[[V41]], %[[V40]]
// FOFOR-NEXT:  %[[V43:.*]] = stablehlo.add %[[V42]], %[[V40]]
// FOFOR-NEXT:  return %[[V1]], %[[V6]], %[[V11]], %[[V18]], %[[V23]], %[[V30]], %[[V37]], %[[V43]]
