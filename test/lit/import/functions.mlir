// RUN: tiduc opt %s --pass-pipeline=tidu-import | filecheck %s

// Private callees are inlined, and composites are replaced by their decompositions; each public function becomes
// a graph. Attributes of the module, of functions and of arguments are kept.

// CHECK:       module @m attributes {mhlo.num_partitions = 1 : i32}
// CHECK:         stablehlo.tanh
// CHECK-NEXT:    stablehlo.negate
// CHECK:       {arg_attrs = [{jax.unknown = "kept"}], inputs = [@x], my.attribute, {{.*}}sym_name = "f"}
// CHECK:         stablehlo.tanh
// CHECK:       sym_name = "g"
// CHECK-NOT:   func.func
module @m attributes {mhlo.num_partitions = 1 : i32} {
  func.func public @f(%x: tensor<4xf32> {jax.unknown = "kept"}) -> (tensor<4xf32> {jax.result_info = "y"})
      attributes {my.attribute} {
    %0 = call @private(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = stablehlo.negate %0 : tensor<4xf32>
    return %1 : tensor<4xf32>
  }
  func.func @g(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.composite "my.tanh" %x {decomposition = @private} : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func private @private(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.tanh %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
