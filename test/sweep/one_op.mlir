// One function for each op that no test in test/lit/rules is about; see accepted.py.
func.func @main(%a: tensor<4xi32>, %b: tensor<4xi32>) -> tensor<4xi32> {
  %y = stablehlo.and %a, %b : tensor<4xi32>
  return %y : tensor<4xi32>
}

// -----

func.func @main(%a: tensor<4xi32>, %b: tensor<4xi32>) -> tensor<4xi32> {
  %y = stablehlo.or %a, %b : tensor<4xi32>
  return %y : tensor<4xi32>
}

// -----

func.func @main(%a: tensor<4xi32>, %b: tensor<4xi32>) -> tensor<4xi32> {
  %y = stablehlo.xor %a, %b : tensor<4xi32>
  return %y : tensor<4xi32>
}

// -----

func.func @main(%a: tensor<4xi32>, %b: tensor<4xi32>) -> tensor<4xi32> {
  %y = stablehlo.shift_left %a, %b : tensor<4xi32>
  return %y : tensor<4xi32>
}

// -----

func.func @main(%a: tensor<4xi32>, %b: tensor<4xi32>) -> tensor<4xi32> {
  %y = stablehlo.shift_right_arithmetic %a, %b : tensor<4xi32>
  return %y : tensor<4xi32>
}

// -----

func.func @main(%a: tensor<4xi32>, %b: tensor<4xi32>) -> tensor<4xi32> {
  %y = stablehlo.shift_right_logical %a, %b : tensor<4xi32>
  return %y : tensor<4xi32>
}

// -----

func.func @main(%a: tensor<4xi32>) -> tensor<4xi32> {
  %y = stablehlo.not %a : tensor<4xi32>
  return %y : tensor<4xi32>
}

// -----

func.func @main(%a: tensor<4xi32>) -> tensor<4xi32> {
  %y = stablehlo.count_leading_zeros %a : tensor<4xi32>
  return %y : tensor<4xi32>
}

// -----

func.func @main(%a: tensor<4xi32>) -> tensor<4xi32> {
  %y = stablehlo.popcnt %a : tensor<4xi32>
  return %y : tensor<4xi32>
}

// -----

func.func @main(%x: tensor<4xf64>) -> tensor<4xf64> {
  %y = stablehlo.ceil %x : tensor<4xf64>
  return %y : tensor<4xf64>
}

// -----

func.func @main(%x: tensor<4xf64>) -> tensor<4xf64> {
  %y = stablehlo.floor %x : tensor<4xf64>
  return %y : tensor<4xf64>
}

// -----

func.func @main(%x: tensor<4xf64>) -> tensor<4xf64> {
  %y = stablehlo.round_nearest_afz %x : tensor<4xf64>
  return %y : tensor<4xf64>
}

// -----

func.func @main(%x: tensor<4xf64>) -> tensor<4xf64> {
  %y = stablehlo.round_nearest_even %x : tensor<4xf64>
  return %y : tensor<4xf64>
}

// -----

func.func @main(%x: tensor<4xf64>) -> tensor<4xf64> {
  %y = stablehlo.sign %x : tensor<4xf64>
  return %y : tensor<4xf64>
}

// -----

func.func @main(%x: tensor<4xf64>) -> tensor<4xi1> {
  %y = stablehlo.is_finite %x : (tensor<4xf64>) -> tensor<4xi1>
  return %y : tensor<4xi1>
}

// -----

func.func @main(%x: tensor<4xf64>, %z: tensor<4xf64>) -> tensor<4xi1> {
  %y = stablehlo.compare LT, %x, %z : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xi1>
  return %y : tensor<4xi1>
}

// -----

func.func @main() -> tensor<4xf64> {
  %y = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf64>
  return %y : tensor<4xf64>
}

// -----

func.func @main() -> tensor<4xf64> {
  %y = stablehlo.iota dim = 0 : tensor<4xf64>
  return %y : tensor<4xf64>
}

// -----

func.func private @double(%x: tensor<4xf64>) -> tensor<4xf64> {
  %y = stablehlo.add %x, %x : tensor<4xf64>
  return %y : tensor<4xf64>
}
func.func @main(%x: tensor<4xf64>) -> tensor<4xf64> {
  %y = stablehlo.composite "my.double" %x {decomposition = @double} : (tensor<4xf64>) -> tensor<4xf64>
  return %y : tensor<4xf64>
}

// -----

func.func @main(%x: tensor<4xf64>) -> tensor<4xf64> {
  %y = stablehlo.custom_call @Sharding(%x) : (tensor<4xf64>) -> tensor<4xf64>
  return %y : tensor<4xf64>
}

// -----

func.func @main(%p: tensor<i1>, %x: tensor<4xf64>) -> tensor<4xf64> {
  %y = "stablehlo.if"(%p) ({
    stablehlo.return %x : tensor<4xf64>
  }, {
    %0 = stablehlo.negate %x : tensor<4xf64>
    stablehlo.return %0 : tensor<4xf64>
  }) : (tensor<i1>) -> tensor<4xf64>
  return %y : tensor<4xf64>
}

// -----

func.func @main(%i: tensor<i32>, %x: tensor<4xf64>) -> tensor<4xf64> {
  %y = "stablehlo.case"(%i) ({
    stablehlo.return %x : tensor<4xf64>
  }, {
    %0 = stablehlo.negate %x : tensor<4xf64>
    stablehlo.return %0 : tensor<4xf64>
  }) : (tensor<i32>) -> tensor<4xf64>
  return %y : tensor<4xf64>
}

// -----

func.func @main(%x: tensor<4xf64>) -> tensor<4xf64> {
  %n = stablehlo.constant dense<3> : tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %k, %y = stablehlo.while(%i = %zero, %c = %x) : tensor<i32>, tensor<4xf64>
    cond {
      %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %j = stablehlo.add %i, %one : tensor<i32>
      %s = stablehlo.sine %c : tensor<4xf64>
      stablehlo.return %j, %s : tensor<i32>, tensor<4xf64>
    }
  return %y : tensor<4xf64>
}

// -----

func.func @main(%x: tensor<4xf64>) -> tensor<4xf64> {
  %t = stablehlo.tuple %x, %x : tuple<tensor<4xf64>, tensor<4xf64>>
  %y = stablehlo.get_tuple_element %t[0] : (tuple<tensor<4xf64>, tensor<4xf64>>) -> tensor<4xf64>
  return %y : tensor<4xf64>
}

// -----

func.func @main(%x: tensor<4xf64>, %s: tensor<2xi32>) -> tensor<?x?xf64> {
  %y = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [0] : (tensor<4xf64>, tensor<2xi32>) -> tensor<?x?xf64>
  return %y : tensor<?x?xf64>
}

// -----

func.func @main(%s: tensor<1xi32>) -> tensor<?xf64> {
  %y = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi32>) -> tensor<?xf64>
  return %y : tensor<?xf64>
}

// -----

func.func @main(%x: tensor<4xf64>, %v: tensor<f64>, %l: tensor<1xi32>, %h: tensor<1xi32>, %i: tensor<1xi32>) -> tensor<?xf64> {
  %y = stablehlo.dynamic_pad %x, %v, %l, %h, %i : (tensor<4xf64>, tensor<f64>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf64>
  return %y : tensor<?xf64>
}

// -----

func.func @main(%x: tensor<4xf64>, %s: tensor<2xi32>) -> tensor<?x?xf64> {
  %y = stablehlo.dynamic_reshape %x, %s : (tensor<4xf64>, tensor<2xi32>) -> tensor<?x?xf64>
  return %y : tensor<?x?xf64>
}

// -----

func.func @main(%x: tensor<4xf64>, %a: tensor<1xi32>, %b: tensor<1xi32>, %c: tensor<1xi32>) -> tensor<?xf64> {
  %y = stablehlo.real_dynamic_slice %x, %a, %b, %c : (tensor<4xf64>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf64>
  return %y : tensor<?xf64>
}

// -----

func.func @main(%x: tensor<?xf64>) -> tensor<i32> {
  %y = "stablehlo.get_dimension_size"(%x) {dimension = 0 : i64} : (tensor<?xf64>) -> tensor<i32>
  return %y : tensor<i32>
}

// -----

func.func @main(%x: tensor<4xf64>, %n: tensor<i32>) -> tensor<?xf64, #stablehlo.bounds<4>> {
  %y = "stablehlo.set_dimension_size"(%x, %n) {dimension = 0 : i64} : (tensor<4xf64>, tensor<i32>) -> tensor<?xf64, #stablehlo.bounds<4>>
  return %y : tensor<?xf64, #stablehlo.bounds<4>>
}

// -----

func.func @main(%x: tensor<1x4x1xf64>, %w: tensor<2x1x1xf64>, %p: tensor<1x2xi64>) -> tensor<1x?x1xf64> {
  %y = "stablehlo.dynamic_conv"(%x, %w, %p) {dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>, feature_group_count = 1 : i64, batch_group_count = 1 : i64} : (tensor<1x4x1xf64>, tensor<2x1x1xf64>, tensor<1x2xi64>) -> tensor<1x?x1xf64>
  return %y : tensor<1x?x1xf64>
}

// -----

func.func @main(%x: tensor<4xf64>) -> tensor<4xf64> {
  %y = "stablehlo.all_gather"(%x) {all_gather_dim = 0 : i64, replica_groups = dense<[[0]]> : tensor<1x1xi64>} : (tensor<4xf64>) -> tensor<4xf64>
  return %y : tensor<4xf64>
}

// -----

func.func @main(%x: tensor<4xf64>) -> tensor<4xf64> {
  %y = "stablehlo.all_reduce"(%x) ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %0 = stablehlo.add %a, %b : tensor<f64>
    stablehlo.return %0 : tensor<f64>
  }) {replica_groups = dense<[[0]]> : tensor<1x1xi64>} : (tensor<4xf64>) -> tensor<4xf64>
  return %y : tensor<4xf64>
}

// -----

func.func @main(%x: tensor<4xf64>) -> tensor<4xf64> {
  %y = "stablehlo.reduce_scatter"(%x) ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %0 = stablehlo.add %a, %b : tensor<f64>
    stablehlo.return %0 : tensor<f64>
  }) {scatter_dimension = 0 : i64, replica_groups = dense<[[0]]> : tensor<1x1xi64>} : (tensor<4xf64>) -> tensor<4xf64>
  return %y : tensor<4xf64>
}

// -----

func.func @main(%x: tensor<4xf64>) -> tensor<4xf64> {
  %y = "stablehlo.all_to_all"(%x) {split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 1 : i64, replica_groups = dense<[[0]]> : tensor<1x1xi64>} : (tensor<4xf64>) -> tensor<4xf64>
  return %y : tensor<4xf64>
}

// -----

func.func @main(%x: tensor<4xf64>) -> tensor<4xf64> {
  %y = "stablehlo.collective_permute"(%x) {source_target_pairs = dense<[[0, 0]]> : tensor<1x2xi64>} : (tensor<4xf64>) -> tensor<4xf64>
  return %y : tensor<4xf64>
}

// -----

func.func @main(%x: tensor<4xf64>) -> tensor<4xf64> {
  %y = "stablehlo.collective_broadcast"(%x) {replica_groups = dense<[[0]]> : tensor<1x1xi64>} : (tensor<4xf64>) -> tensor<4xf64>
  return %y : tensor<4xf64>
}

// -----

func.func @main(%x: tensor<4xf64>) -> tensor<4xf64> {
  %y = "stablehlo.cross-replica-sum"(%x) {replica_groups = dense<[[0]]> : tensor<1x1xi64>} : (tensor<4xf64>) -> tensor<4xf64>
  return %y : tensor<4xf64>
}

// -----

func.func @main() -> tensor<ui32> {
  %y = stablehlo.partition_id : tensor<ui32>
  return %y : tensor<ui32>
}

// -----

func.func @main() -> tensor<ui32> {
  %y = stablehlo.replica_id : tensor<ui32>
  return %y : tensor<ui32>
}

// -----

func.func @main() -> tensor<4xf64> {
  %t = stablehlo.create_token : !stablehlo.token
  %y, %u = "stablehlo.infeed"(%t) : (!stablehlo.token) -> (tensor<4xf64>, !stablehlo.token)
  return %y : tensor<4xf64>
}

// -----

func.func @main(%y: tensor<4xf64>) -> tensor<4xf64> {
  %t = stablehlo.after_all : !stablehlo.token
  %u = "stablehlo.outfeed"(%y, %t) : (tensor<4xf64>, !stablehlo.token) -> !stablehlo.token
  return %y : tensor<4xf64>
}

// -----

func.func @main(%y: tensor<4xf64>) -> tensor<4xf64> {
  %t = stablehlo.create_token : !stablehlo.token
  %u = "stablehlo.send"(%y, %t) {channel_handle = #stablehlo.channel_handle<handle = 1, type = 2>, is_host_transfer = true} : (tensor<4xf64>, !stablehlo.token) -> !stablehlo.token
  return %y : tensor<4xf64>
}

// -----

func.func @main() -> tensor<4xf64> {
  %t = stablehlo.create_token : !stablehlo.token
  %y, %u = "stablehlo.recv"(%t) {channel_handle = #stablehlo.channel_handle<handle = 1, type = 3>, is_host_transfer = true} : (!stablehlo.token) -> (tensor<4xf64>, !stablehlo.token)
  return %y : tensor<4xf64>
}

// -----

func.func @main(%x: tensor<2xui64>) -> tensor<4xui32> {
  %s, %y = stablehlo.rng_bit_generator %x, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4xui32>)
  return %y : tensor<4xui32>
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %q = stablehlo.uniform_quantize %x : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  %y = stablehlo.uniform_dequantize %q : (tensor<4x!quant.uniform<i8:f32, 0.5>>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func @main() -> tensor<4xf64> {
  %y = chlo.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf64>
  return %y : tensor<4xf64>
}

// -----

func.func @main(%x: tensor<4xf64>) -> tensor<4xf64> {
  %y = "chlo.constant_like"(%x) <{value = 2.0 : f64}> : (tensor<4xf64>) -> tensor<4xf64>
  return %y : tensor<4xf64>
}

// -----

func.func @main(%x: tensor<4xf64>) -> tensor<4xi1> {
  %y = chlo.is_inf %x : tensor<4xf64> -> tensor<4xi1>
  return %y : tensor<4xi1>
}

// -----

func.func @main(%x: tensor<4xf64>) -> tensor<4xi1> {
  %y = chlo.is_neg_inf %x : tensor<4xf64> -> tensor<4xi1>
  return %y : tensor<4xi1>
}

// -----

func.func @main(%x: tensor<4xf64>) -> tensor<4xi1> {
  %y = chlo.is_pos_inf %x : tensor<4xf64> -> tensor<4xi1>
  return %y : tensor<4xi1>
}

// -----

func.func @main(%a: tensor<4xi32>, %b: tensor<4xi32>) -> tensor<4xi32> {
  %y = chlo.mulhi %a, %b : tensor<4xi32>, tensor<4xi32> -> tensor<4xi32>
  return %y : tensor<4xi32>
}

// -----

func.func @main(%a: tensor<4xi32>, %b: tensor<4xi32>) -> tensor<4xi32> {
  %y = chlo.broadcast_and %a, %b : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  return %y : tensor<4xi32>
}

// -----

func.func @main(%a: tensor<4xi32>, %b: tensor<4xi32>) -> tensor<4xi32> {
  %y = chlo.broadcast_or %a, %b : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  return %y : tensor<4xi32>
}

// -----

func.func @main(%a: tensor<4xi32>, %b: tensor<4xi32>) -> tensor<4xi32> {
  %y = chlo.broadcast_xor %a, %b : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  return %y : tensor<4xi32>
}

// -----

func.func @main(%a: tensor<4xi32>, %b: tensor<4xi32>) -> tensor<4xi32> {
  %y = chlo.broadcast_shift_left %a, %b : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  return %y : tensor<4xi32>
}

// -----

func.func @main(%a: tensor<4xi32>, %b: tensor<4xi32>) -> tensor<4xi32> {
  %y = chlo.broadcast_shift_right_arithmetic %a, %b : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  return %y : tensor<4xi32>
}

// -----

func.func @main(%a: tensor<4xi32>, %b: tensor<4xi32>) -> tensor<4xi32> {
  %y = chlo.broadcast_shift_right_logical %a, %b : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  return %y : tensor<4xi32>
}

// -----

func.func @main(%x: tensor<4xf64>, %z: tensor<4xf64>) -> tensor<4xi1> {
  %y = chlo.broadcast_compare %x, %z {comparison_direction = #chlo<comparison_direction LT>} : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xi1>
  return %y : tensor<4xi1>
}

// -----

func.func @main(%x: tensor<4xf64>, %z: tensor<4xf64>) -> tensor<4xf64> {
  %y = chlo.broadcast_next_after %x, %z : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xf64>
  return %y : tensor<4xf64>
}

// -----

func.func @main(%x: tensor<4xf64>, %z: tensor<4xf64>) -> tensor<4xf64> {
  %y = chlo.broadcast_polygamma %x, %z : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xf64>
  return %y : tensor<4xf64>
}

// -----

func.func @main(%x: tensor<4xf64>, %z: tensor<4xf64>) -> tensor<4xf64> {
  %y = chlo.broadcast_zeta %x, %z : (tensor<4xf64>, tensor<4xf64>) -> tensor<4xf64>
  return %y : tensor<4xf64>
}
