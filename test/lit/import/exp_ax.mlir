// RUN: tiduc opt %s --pass-pipeline=tidu-import | filecheck %s

// A function becomes a graph; an input's key is its `tidu.name`, its location's name, or `argN`.

// CHECK:       "tidu.graph"() ({
// CHECK-NEXT:  ^bb0(%[[A:.*]]: tensor<f64>, %[[X:.*]]: tensor<f64>, %[[U:.*]]: tensor<f64>):
// CHECK-NEXT:    %[[P2:.*]] = stablehlo.multiply %[[A]], %[[X]] : tensor<f64>
// CHECK-NEXT:    %[[P3:.*]] = stablehlo.exponential %[[P2]] : tensor<f64>
// CHECK-NEXT:    stablehlo.return %[[P3]] : tensor<f64>
// CHECK-NEXT:  }) {arg_attrs = [{tidu.name = "a"}, {}, {}], inputs = [@a, @x, @arg2], sym_name = "main"}
// CHECK-NOT:   func.func
func.func @main(%0: tensor<f64> {tidu.name = "a"}, %1: tensor<f64> loc("x"), %2: tensor<f64>) -> tensor<f64> {
  %3 = stablehlo.multiply %0, %1 : tensor<f64>
  %4 = stablehlo.exponential %3 : tensor<f64>
  return %4 : tensor<f64>
}
