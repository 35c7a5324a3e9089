// RUN: tiduc jvp %s --wrt x,y | filecheck %s --check-prefix=F
// RUN: tiduc vjp %s --wrt x,y | filecheck %s --check-prefix=R
// RUN: tiduc jvp %s --wrt x,y | tiduc jvp - --wrt x,y | filecheck %s --check-prefix=FOF
// RUN: tiduc vjp %s --wrt x,y | tiduc jvp - --wrt x,y | filecheck %s --check-prefix=FOR
// RUN: tiduc jvp %s --wrt x,y | tiduc vjp - --wrt x,y | filecheck %s --check-prefix=ROF
// RUN: tiduc vjp %s --wrt x,y | tiduc vjp - --wrt x,y | filecheck %s --check-prefix=ROR

// f(x, y) = x y

func.func @main(%x: tensor<f64> {tidu.name = "x"}, %y: tensor<f64> {tidu.name = "y"}) -> (tensor<f64> {tidu.name = "f"}) {
  %0 = stablehlo.multiply %x, %y : tensor<f64>
  return %0 : tensor<f64>
}

// Forward: (x, y, x.tangent, y.tangent).
// F-LABEL: func.func @main
// F-NEXT:  %[[V0:.*]] = stablehlo.multiply %arg0, %arg1
// F-NEXT:  %[[V1:.*]] = stablehlo.multiply %arg0, %arg3
// F-NEXT:  %[[V2:.*]] = stablehlo.multiply %arg2, %arg1
// F-NEXT:  %[[V3:.*]] = stablehlo.add %[[V2]], %[[V1]]
// F-NEXT:  return %[[V0]], %[[V3]]

// Reverse: (x, y, f.cotangent).
// R-LABEL: func.func @main
// R-NEXT:  %[[V0:.*]] = stablehlo.multiply %arg0, %arg1
// R-NEXT:  %[[V1:.*]] = stablehlo.multiply %arg1, %arg2
// R-NEXT:  %[[V2:.*]] = stablehlo.multiply %arg0, %arg2
// R-NEXT:  return %[[V0]], %[[V1]], %[[V2]]

// Forward over forward: (x, y, x.tangent, y.tangent, x.tangent.2, y.tangent.2).
// FOF-LABEL: func.func @main
// FOF-NEXT:  %[[V0:.*]] = stablehlo.multiply %arg0, %arg1
// FOF-NEXT:  %[[V1:.*]] = stablehlo.multiply %arg0, %arg3
// FOF-NEXT:  %[[V2:.*]] = stablehlo.multiply %arg2, %arg1
// FOF-NEXT:  %[[V3:.*]] = stablehlo.add %[[V2]], %[[V1]]
// FOF-NEXT:  %[[V4:.*]] = stablehlo.multiply %arg0, %arg5
// FOF-NEXT:  %[[V5:.*]] = stablehlo.multiply %arg4, %arg1
// FOF-NEXT:  %[[V6:.*]] = stablehlo.add %[[V5]], %[[V4]]
// FOF-NEXT:  %[[V7:.*]] = stablehlo.multiply %arg4, %arg3
// FOF-NEXT:  %[[V8:.*]] = stablehlo.multiply %arg2, %arg5
// FOF-NEXT:  %[[V9:.*]] = stablehlo.add %[[V8]], %[[V7]]
// FOF-NEXT:  return %[[V0]], %[[V3]], %[[V6]], %[[V9]]

// Forward over reverse: (x, y, f.cotangent, x.tangent, y.tangent).
// FOR-LABEL: func.func @main
// FOR-NEXT:  %[[V0:.*]] = stablehlo.multiply %arg0, %arg1
// FOR-NEXT:  %[[V1:.*]] = stablehlo.multiply %arg1, %arg2
// FOR-NEXT:  %[[V2:.*]] = stablehlo.multiply %arg0, %arg2
// FOR-NEXT:  %[[V3:.*]] = stablehlo.multiply %arg0, %arg4
// FOR-NEXT:  %[[V4:.*]] = stablehlo.multiply %arg3, %arg1
// FOR-NEXT:  %[[V5:.*]] = stablehlo.add %[[V4]], %[[V3]]
// FOR-NEXT:  %[[V6:.*]] = stablehlo.multiply %arg4, %arg2
// FOR-NEXT:  %[[V7:.*]] = stablehlo.multiply %arg3, %arg2
// FOR-NEXT:  return %[[V0]], %[[V1]], %[[V2]], %[[V5]], %[[V6]], %[[V7]]

// Reverse over forward: (x, y, x.tangent, y.tangent, f.cotangent, f.tangent.cotangent).
// ROF-LABEL: func.func @main
// ROF-NEXT:  %[[V0:.*]] = stablehlo.multiply %arg0, %arg1
// ROF-NEXT:  %[[V1:.*]] = stablehlo.multiply %arg0, %arg3
// ROF-NEXT:  %[[V2:.*]] = stablehlo.multiply %arg2, %arg1
// ROF-NEXT:  %[[V3:.*]] = stablehlo.add %[[V2]], %[[V1]]
// ROF-NEXT:  %[[V4:.*]] = stablehlo.multiply %arg1, %arg4
// ROF-NEXT:  %[[V5:.*]] = stablehlo.multiply %arg3, %arg5
// ROF-NEXT:  %[[V6:.*]] = stablehlo.add %[[V5]], %[[V4]]
// ROF-NEXT:  %[[V7:.*]] = stablehlo.multiply %arg0, %arg4
// ROF-NEXT:  %[[V8:.*]] = stablehlo.multiply %arg2, %arg5
// ROF-NEXT:  %[[V9:.*]] = stablehlo.add %[[V8]], %[[V7]]
// ROF-NEXT:  return %[[V0]], %[[V3]], %[[V6]], %[[V9]]

// Reverse over reverse: (x, y, f.cotangent, f.cotangent.2, x.cotangent.cotangent, y.cotangent.cotangent).
// ROR-LABEL: func.func @main
// ROR-NEXT:  %[[V0:.*]] = stablehlo.multiply %arg0, %arg1
// ROR-NEXT:  %[[V1:.*]] = stablehlo.multiply %arg1, %arg2
// ROR-NEXT:  %[[V2:.*]] = stablehlo.multiply %arg0, %arg2
// ROR-NEXT:  %[[V3:.*]] = stablehlo.multiply %arg1, %arg3
// ROR-NEXT:  %[[V4:.*]] = stablehlo.multiply %arg2, %arg5
// ROR-NEXT:  %[[V5:.*]] = stablehlo.add %[[V4]], %[[V3]]
// ROR-NEXT:  %[[V6:.*]] = stablehlo.multiply %arg0, %arg3
// ROR-NEXT:  %[[V7:.*]] = stablehlo.multiply %arg2, %arg4
// ROR-NEXT:  %[[V8:.*]] = stablehlo.add %[[V7]], %[[V6]]
// ROR-NEXT:  return %[[V0]], %[[V1]], %[[V2]], %[[V5]], %[[V8]]
