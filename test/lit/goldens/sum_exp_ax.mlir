// RUN: tiduc jvp %s --wrt x | filecheck %s --check-prefix=F
// RUN: tiduc vjp %s --wrt x | filecheck %s --check-prefix=R
// RUN: tiduc jvp %s --wrt x | tiduc jvp - --wrt x | filecheck %s --check-prefix=FOF
// RUN: tiduc vjp %s --wrt x | tiduc jvp - --wrt x | filecheck %s --check-prefix=FOR
// RUN: tiduc jvp %s --wrt x | tiduc vjp - --wrt x | filecheck %s --check-prefix=ROF
// RUN: tiduc vjp %s --wrt x | tiduc vjp - --wrt x | filecheck %s --check-prefix=ROR

// f(a, x) = sum(exp(a x)), of vectors

func.func @main(%a: tensor<2xf64> {tidu.name = "a"}, %x: tensor<2xf64> {tidu.name = "x"}) -> (tensor<f64> {tidu.name = "f"}) {
  %0 = stablehlo.multiply %a, %x : tensor<2xf64>
  %1 = stablehlo.exponential %0 : tensor<2xf64>
  %2 = stablehlo.constant dense<0.0> : tensor<f64>
  %3 = stablehlo.reduce(%1 init: %2) applies stablehlo.add across dimensions = [0] : (tensor<2xf64>, tensor<f64>) -> tensor<f64>
  return %3 : tensor<f64>
}

// Forward: (a, x, x.tangent).
// F-LABEL: func.func @main
// F-NEXT:  %[[ZERO:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// F-NEXT:  %[[V0:.*]] = stablehlo.multiply %arg0, %arg1
// F-NEXT:  %[[V1:.*]] = stablehlo.exponential %[[V0]]
// F-NEXT:  %[[V2:.*]] = stablehlo.reduce(%[[V1]] init: %[[ZERO]]) applies stablehlo.add across dimensions = [0] : (tensor<2xf64>, tensor<f64>) -> tensor<f64>
// F-NEXT:  %[[V3:.*]] = stablehlo.multiply %arg0, %arg2
// F-NEXT:  %[[V4:.*]] = stablehlo.multiply %[[V1]], %[[V3]]
// F-NEXT:  %[[V5:.*]] = stablehlo.reduce(%[[V4]] init: %[[ZERO]]) applies stablehlo.add across dimensions = [0] : (tensor<2xf64>, tensor<f64>) -> tensor<f64>
// F-NEXT:  return %[[V2]], %[[V5]]

// Reverse: (a, x, f.cotangent).
// R-LABEL: func.func @main
// R-NEXT:  %[[ZERO:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// R-NEXT:  %[[V0:.*]] = stablehlo.multiply %arg0, %arg1
// R-NEXT:  %[[V1:.*]] = stablehlo.exponential %[[V0]]
// R-NEXT:  %[[V2:.*]] = stablehlo.reduce(%[[V1]] init: %[[ZERO]]) applies stablehlo.add across dimensions = [0] : (tensor<2xf64>, tensor<f64>) -> tensor<f64>
// R-NEXT:  %[[V3:.*]] = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f64>) -> tensor<2xf64>
// R-NEXT:  %[[V4:.*]] = stablehlo.multiply %[[V1]], %[[V3]]
// R-NEXT:  %[[V5:.*]] = stablehlo.multiply %arg0, %[[V4]]
// R-NEXT:  return %[[V2]], %[[V5]]

// Forward over forward: (a, x, x.tangent, x.tangent.2).
// FOF-LABEL: func.func @main
// FOF-NEXT:  %[[ZERO:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// FOF-NEXT:  %[[V0:.*]] = stablehlo.multiply %arg0, %arg1
// FOF-NEXT:  %[[V1:.*]] = stablehlo.exponential %[[V0]]
// FOF-NEXT:  %[[V2:.*]] = stablehlo.reduce(%[[V1]] init: %[[ZERO]]) applies stablehlo.add across dimensions = [0] : (tensor<2xf64>, tensor<f64>) -> tensor<f64>
// FOF-NEXT:  %[[V3:.*]] = stablehlo.multiply %arg0, %arg2
// FOF-NEXT:  %[[V4:.*]] = stablehlo.multiply %[[V1]], %[[V3]]
// FOF-NEXT:  %[[V5:.*]] = stablehlo.reduce(%[[V4]] init: %[[ZERO]]) applies stablehlo.add across dimensions = [0] : (tensor<2xf64>, tensor<f64>) -> tensor<f64>
// FOF-NEXT:  %[[V6:.*]] = stablehlo.multiply %arg0, %arg3
// FOF-NEXT:  %[[V7:.*]] = stablehlo.multiply %[[V1]], %[[V6]]
// FOF-NEXT:  %[[V8:.*]] = stablehlo.reduce(%[[V7]] init: %[[ZERO]]) applies stablehlo.add across dimensions = [0] : (tensor<2xf64>, tensor<f64>) -> tensor<f64>
// FOF-NEXT:  %[[V9:.*]] = stablehlo.multiply %[[V7]], %[[V3]]
// FOF-NEXT:  %[[V10:.*]] = stablehlo.reduce(%[[V9]] init: %[[ZERO]]) applies stablehlo.add across dimensions = [0] : (tensor<2xf64>, tensor<f64>) -> tensor<f64>
// FOF-NEXT:  return %[[V2]], %[[V5]], %[[V8]], %[[V10]]

// Forward over reverse: (a, x, f.cotangent, x.tangent).
// FOR-LABEL: func.func @main
// FOR-NEXT:  %[[ZERO:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// FOR-NEXT:  %[[V0:.*]] = stablehlo.multiply %arg0, %arg1
// FOR-NEXT:  %[[V1:.*]] = stablehlo.exponential %[[V0]]
// FOR-NEXT:  %[[V2:.*]] = stablehlo.reduce(%[[V1]] init: %[[ZERO]]) applies stablehlo.add across dimensions = [0] : (tensor<2xf64>, tensor<f64>) -> tensor<f64>
// FOR-NEXT:  %[[V3:.*]] = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f64>) -> tensor<2xf64>
// FOR-NEXT:  %[[V4:.*]] = stablehlo.multiply %[[V1]], %[[V3]]
// FOR-NEXT:  %[[V5:.*]] = stablehlo.multiply %arg0, %[[V4]]
// FOR-NEXT:  %[[V6:.*]] = stablehlo.multiply %arg0, %arg3
// FOR-NEXT:  %[[V7:.*]] = stablehlo.multiply %[[V1]], %[[V6]]
// FOR-NEXT:  %[[V8:.*]] = stablehlo.reduce(%[[V7]] init: %[[ZERO]]) applies stablehlo.add across dimensions = [0] : (tensor<2xf64>, tensor<f64>) -> tensor<f64>
// FOR-NEXT:  %[[V9:.*]] = stablehlo.multiply %[[V7]], %[[V3]]
// FOR-NEXT:  %[[V10:.*]] = stablehlo.multiply %arg0, %[[V9]]
// FOR-NEXT:  return %[[V2]], %[[V5]], %[[V8]], %[[V10]]

// Reverse over forward: (a, x, x.tangent, f.cotangent, f.tangent.cotangent).
// ROF-LABEL: func.func @main
// ROF-NEXT:  %[[ZERO:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// ROF-NEXT:  %[[V0:.*]] = stablehlo.multiply %arg0, %arg1
// ROF-NEXT:  %[[V1:.*]] = stablehlo.exponential %[[V0]]
// ROF-NEXT:  %[[V2:.*]] = stablehlo.reduce(%[[V1]] init: %[[ZERO]]) applies stablehlo.add across dimensions = [0] : (tensor<2xf64>, tensor<f64>) -> tensor<f64>
// ROF-NEXT:  %[[V3:.*]] = stablehlo.multiply %arg0, %arg2
// ROF-NEXT:  %[[V4:.*]] = stablehlo.multiply %[[V1]], %[[V3]]
// ROF-NEXT:  %[[V5:.*]] = stablehlo.reduce(%[[V4]] init: %[[ZERO]]) applies stablehlo.add across dimensions = [0] : (tensor<2xf64>, tensor<f64>) -> tensor<f64>
// ROF-NEXT:  %[[V6:.*]] = stablehlo.broadcast_in_dim %arg3, dims = [] : (tensor<f64>) -> tensor<2xf64>
// ROF-NEXT:  %[[V7:.*]] = stablehlo.broadcast_in_dim %arg4, dims = [] : (tensor<f64>) -> tensor<2xf64>
// ROF-NEXT:  %[[V8:.*]] = stablehlo.multiply %[[V3]], %[[V7]]
// ROF-NEXT:  %[[V9:.*]] = stablehlo.add %[[V8]], %[[V6]]
// ROF-NEXT:  %[[V10:.*]] = stablehlo.multiply %[[V1]], %[[V9]]
// ROF-NEXT:  %[[V11:.*]] = stablehlo.multiply %arg0, %[[V10]]
// ROF-NEXT:  return %[[V2]], %[[V5]], %[[V11]]

// Reverse over reverse: (a, x, f.cotangent, f.cotangent.2, x.cotangent.cotangent).
// ROR-LABEL: func.func @main
// ROR-NEXT:  %[[ZERO:.*]] = stablehlo.constant dense<0.000000e+00> : tensor<f64>
// ROR-NEXT:  %[[V0:.*]] = stablehlo.multiply %arg0, %arg1
// ROR-NEXT:  %[[V1:.*]] = stablehlo.exponential %[[V0]]
// ROR-NEXT:  %[[V2:.*]] = stablehlo.reduce(%[[V1]] init: %[[ZERO]]) applies stablehlo.add across dimensions = [0] : (tensor<2xf64>, tensor<f64>) -> tensor<f64>
// ROR-NEXT:  %[[V3:.*]] = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f64>) -> tensor<2xf64>
// ROR-NEXT:  %[[V4:.*]] = stablehlo.multiply %[[V1]], %[[V3]]
// ROR-NEXT:  %[[V5:.*]] = stablehlo.multiply %arg0, %[[V4]]
// ROR-NEXT:  %[[V6:.*]] = stablehlo.broadcast_in_dim %arg3, dims = [] : (tensor<f64>) -> tensor<2xf64>
// ROR-NEXT:  %[[V7:.*]] = stablehlo.multiply %arg0, %arg4
// ROR-NEXT:  %[[V8:.*]] = stablehlo.multiply %[[V3]], %[[V7]]
// ROR-NEXT:  %[[V9:.*]] = stablehlo.add %[[V8]], %[[V6]]
// ROR-NEXT:  %[[V10:.*]] = stablehlo.multiply %[[V1]], %[[V9]]
// ROR-NEXT:  %[[V11:.*]] = stablehlo.multiply %arg0, %[[V10]]
// ROR-NEXT:  return %[[V2]], %[[V5]], %[[V11]]
