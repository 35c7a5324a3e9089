module @jit_transformer_loss attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<128xf64> loc("params['b1']"), %arg1: tensor<32xf64> loc("params['b2']"), %arg2: tensor<48x32xf64> loc("params['embed']"), %arg3: tensor<32xf64> loc("params['ln1_scale']"), %arg4: tensor<32xf64> loc("params['ln1_shift']"), %arg5: tensor<32xf64> loc("params['ln2_scale']"), %arg6: tensor<32xf64> loc("params['ln2_shift']"), %arg7: tensor<32xf64> loc("params['ln3_scale']"), %arg8: tensor<32xf64> loc("params['ln3_shift']"), %arg9: tensor<16x32xf64> loc("params['position']"), %arg10: tensor<32x48xf64> loc("params['unembed']"), %arg11: tensor<32x128xf64> loc("params['w1']"), %arg12: tensor<128x32xf64> loc("params['w2']"), %arg13: tensor<32x32xf64> loc("params['w_out']"), %arg14: tensor<32x96xf64> loc("params['w_qkv']"), %arg15: tensor<2x16xi32> loc("tokens"), %arg16: tensor<2x16xi32> loc("targets")) -> (tensor<f64> {jax.result_info = "result"}) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<2x16xi32>
    %1 = stablehlo.compare LT, %arg15, %0, SIGNED : (tensor<2x16xi32>, tensor<2x16xi32>) -> tensor<2x16xi1>
    %c_0 = stablehlo.constant dense<48> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<2x16xi32>
    %3 = stablehlo.add %arg15, %2 : tensor<2x16xi32>
    %4 = stablehlo.select %1, %3, %arg15 : tensor<2x16xi1>, tensor<2x16xi32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<2x16xi32>) -> tensor<2x16x1xi32>
    %6 = "stablehlo.gather"(%arg2, %5) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 32>}> : (tensor<48x32xf64>, tensor<2x16x1xi32>) -> tensor<2x16x32xf64>
    %7 = stablehlo.broadcast_in_dim %arg9, dims = [1, 2] : (tensor<16x32xf64>) -> tensor<1x16x32xf64>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1, 2] : (tensor<1x16x32xf64>) -> tensor<2x16x32xf64>
    %9 = stablehlo.add %6, %8 : tensor<2x16x32xf64>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %10 = stablehlo.reduce(%9 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<2x16x32xf64>, tensor<f64>) -> tensor<2x16xf64>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1] : (tensor<2x16xf64>) -> tensor<2x16x1xf64>
    %cst_1 = stablehlo.constant dense<3.200000e+01> : tensor<f64>
    %12 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f64>) -> tensor<2x16x1xf64>
    %13 = stablehlo.divide %11, %12 : tensor<2x16x1xf64>
    %c_2 = stablehlo.constant dense<0> : tensor<i64>
    %14 = call @_var(%9, %c_2) : (tensor<2x16x32xf64>, tensor<i64>) -> tensor<2x16x1xf64>
    %15 = stablehlo.broadcast_in_dim %13, dims = [0, 1, 2] : (tensor<2x16x1xf64>) -> tensor<2x16x32xf64>
    %16 = stablehlo.subtract %9, %15 : tensor<2x16x32xf64>
    %cst_3 = stablehlo.constant dense<1.000000e-05> : tensor<f64>
    %17 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f64>) -> tensor<2x16x1xf64>
    %18 = stablehlo.add %14, %17 : tensor<2x16x1xf64>
    %19 = stablehlo.rsqrt %18 : tensor<2x16x1xf64>
    %20 = stablehlo.broadcast_in_dim %19, dims = [0, 1, 2] : (tensor<2x16x1xf64>) -> tensor<2x16x32xf64>
    %21 = stablehlo.multiply %16, %20 : tensor<2x16x32xf64>
    %22 = stablehlo.broadcast_in_dim %arg3, dims = [2] : (tensor<32xf64>) -> tensor<1x1x32xf64>
    %23 = stablehlo.broadcast_in_dim %22, dims = [0, 1, 2] : (tensor<1x1x32xf64>) -> tensor<2x16x32xf64>
    %24 = stablehlo.multiply %21, %23 : tensor<2x16x32xf64>
    %25 = stablehlo.broadcast_in_dim %arg4, dims = [2] : (tensor<32xf64>) -> tensor<1x1x32xf64>
    %26 = stablehlo.broadcast_in_dim %25, dims = [0, 1, 2] : (tensor<1x1x32xf64>) -> tensor<2x16x32xf64>
    %27 = stablehlo.add %24, %26 : tensor<2x16x32xf64>
    %28 = stablehlo.dot_general %27, %arg14, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x32xf64>, tensor<32x96xf64>) -> tensor<2x16x96xf64>
    %29 = stablehlo.reshape %28 : (tensor<2x16x96xf64>) -> tensor<2x16x3x4x8xf64>
    %30 = stablehlo.transpose %29, dims = [2, 0, 1, 3, 4] : (tensor<2x16x3x4x8xf64>) -> tensor<3x2x16x4x8xf64>
    %31 = stablehlo.slice %30 [0:1, 0:2, 0:16, 0:4, 0:8] : (tensor<3x2x16x4x8xf64>) -> tensor<1x2x16x4x8xf64>
    %32 = stablehlo.reshape %31 : (tensor<1x2x16x4x8xf64>) -> tensor<2x16x4x8xf64>
    %33 = stablehlo.slice %30 [1:2, 0:2, 0:16, 0:4, 0:8] : (tensor<3x2x16x4x8xf64>) -> tensor<1x2x16x4x8xf64>
    %34 = stablehlo.reshape %33 : (tensor<1x2x16x4x8xf64>) -> tensor<2x16x4x8xf64>
    %35 = stablehlo.slice %30 [2:3, 0:2, 0:16, 0:4, 0:8] : (tensor<3x2x16x4x8xf64>) -> tensor<1x2x16x4x8xf64>
    %36 = stablehlo.reshape %35 : (tensor<1x2x16x4x8xf64>) -> tensor<2x16x4x8xf64>
    %37 = stablehlo.dot_general %32, %34, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x16x4x8xf64>, tensor<2x16x4x8xf64>) -> tensor<2x4x16x16xf64>
    %cst_4 = stablehlo.constant dense<2.8284271247461903> : tensor<f64>
    %38 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f64>) -> tensor<2x4x16x16xf64>
    %39 = stablehlo.divide %37, %38 : tensor<2x4x16x16xf64>
    %c_5 = stablehlo.constant dense<true> : tensor<i1>
    %40 = stablehlo.broadcast_in_dim %c_5, dims = [] : (tensor<i1>) -> tensor<16x16xi1>
    %41 = call @tril(%40) : (tensor<16x16xi1>) -> tensor<16x16xi1>
    %cst_6 = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>
    %42 = call @_where_0(%41, %39, %cst_6) : (tensor<16x16xi1>, tensor<2x4x16x16xf64>, tensor<f64>) -> tensor<2x4x16x16xf64>
    %cst_7 = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>
    %43 = stablehlo.reduce(%42 init: %cst_7) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x16x16xf64>, tensor<f64>) -> tensor<2x4x16xf64>
    %cst_8 = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>
    %44 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f64>) -> tensor<2x4x16xf64>
    %45 = stablehlo.maximum %44, %43 : tensor<2x4x16xf64>
    %46 = stablehlo.broadcast_in_dim %45, dims = [0, 1, 2] : (tensor<2x4x16xf64>) -> tensor<2x4x16x1xf64>
    %47 = stablehlo.broadcast_in_dim %46, dims = [0, 1, 2, 3] : (tensor<2x4x16x1xf64>) -> tensor<2x4x16x16xf64>
    %48 = stablehlo.subtract %42, %47 : tensor<2x4x16x16xf64>
    %49 = stablehlo.exponential %48 : tensor<2x4x16x16xf64>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %50 = stablehlo.reduce(%49 init: %cst_9) applies stablehlo.add across dimensions = [3] : (tensor<2x4x16x16xf64>, tensor<f64>) -> tensor<2x4x16xf64>
    %51 = stablehlo.broadcast_in_dim %50, dims = [0, 1, 2] : (tensor<2x4x16xf64>) -> tensor<2x4x16x1xf64>
    %52 = stablehlo.broadcast_in_dim %51, dims = [0, 1, 2, 3] : (tensor<2x4x16x1xf64>) -> tensor<2x4x16x16xf64>
    %53 = stablehlo.divide %49, %52 : tensor<2x4x16x16xf64>
    %54 = stablehlo.dot_general %36, %53, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x16x4x8xf64>, tensor<2x4x16x16xf64>) -> tensor<2x4x8x16xf64>
    %55 = stablehlo.transpose %54, dims = [0, 3, 1, 2] : (tensor<2x4x8x16xf64>) -> tensor<2x16x4x8xf64>
    %56 = stablehlo.reshape %55 : (tensor<2x16x4x8xf64>) -> tensor<2x16x32xf64>
    %57 = stablehlo.dot_general %56, %arg13, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x32xf64>, tensor<32x32xf64>) -> tensor<2x16x32xf64>
    %58 = stablehlo.add %9, %57 : tensor<2x16x32xf64>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %59 = stablehlo.reduce(%58 init: %cst_10) applies stablehlo.add across dimensions = [2] : (tensor<2x16x32xf64>, tensor<f64>) -> tensor<2x16xf64>
    %60 = stablehlo.broadcast_in_dim %59, dims = [0, 1] : (tensor<2x16xf64>) -> tensor<2x16x1xf64>
    %cst_11 = stablehlo.constant dense<3.200000e+01> : tensor<f64>
    %61 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f64>) -> tensor<2x16x1xf64>
    %62 = stablehlo.divide %60, %61 : tensor<2x16x1xf64>
    %c_12 = stablehlo.constant dense<0> : tensor<i64>
    %63 = call @_var(%58, %c_12) : (tensor<2x16x32xf64>, tensor<i64>) -> tensor<2x16x1xf64>
    %64 = stablehlo.broadcast_in_dim %62, dims = [0, 1, 2] : (tensor<2x16x1xf64>) -> tensor<2x16x32xf64>
    %65 = stablehlo.subtract %58, %64 : tensor<2x16x32xf64>
    %cst_13 = stablehlo.constant dense<1.000000e-05> : tensor<f64>
    %66 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f64>) -> tensor<2x16x1xf64>
    %67 = stablehlo.add %63, %66 : tensor<2x16x1xf64>
    %68 = stablehlo.rsqrt %67 : tensor<2x16x1xf64>
    %69 = stablehlo.broadcast_in_dim %68, dims = [0, 1, 2] : (tensor<2x16x1xf64>) -> tensor<2x16x32xf64>
    %70 = stablehlo.multiply %65, %69 : tensor<2x16x32xf64>
    %71 = stablehlo.broadcast_in_dim %arg5, dims = [2] : (tensor<32xf64>) -> tensor<1x1x32xf64>
    %72 = stablehlo.broadcast_in_dim %71, dims = [0, 1, 2] : (tensor<1x1x32xf64>) -> tensor<2x16x32xf64>
    %73 = stablehlo.multiply %70, %72 : tensor<2x16x32xf64>
    %74 = stablehlo.broadcast_in_dim %arg6, dims = [2] : (tensor<32xf64>) -> tensor<1x1x32xf64>
    %75 = stablehlo.broadcast_in_dim %74, dims = [0, 1, 2] : (tensor<1x1x32xf64>) -> tensor<2x16x32xf64>
    %76 = stablehlo.add %73, %75 : tensor<2x16x32xf64>
    %77 = stablehlo.dot_general %76, %arg11, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x32xf64>, tensor<32x128xf64>) -> tensor<2x16x128xf64>
    %78 = stablehlo.broadcast_in_dim %arg0, dims = [2] : (tensor<128xf64>) -> tensor<1x1x128xf64>
    %79 = stablehlo.broadcast_in_dim %78, dims = [0, 1, 2] : (tensor<1x1x128xf64>) -> tensor<2x16x128xf64>
    %80 = stablehlo.add %77, %79 : tensor<2x16x128xf64>
    %cst_14 = stablehlo.constant dense<5.000000e-01> : tensor<f64>
    %81 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f64>) -> tensor<2x16x128xf64>
    %82 = stablehlo.multiply %81, %80 : tensor<2x16x128xf64>
    %83 = stablehlo.negate %80 : tensor<2x16x128xf64>
    %cst_15 = stablehlo.constant dense<0.70710678118654757> : tensor<f64>
    %84 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f64>) -> tensor<2x16x128xf64>
    %85 = stablehlo.multiply %83, %84 : tensor<2x16x128xf64>
    %86 = chlo.erfc %85 : tensor<2x16x128xf64> -> tensor<2x16x128xf64>
    %87 = stablehlo.multiply %82, %86 : tensor<2x16x128xf64>
    %88 = stablehlo.dot_general %87, %arg12, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x128xf64>, tensor<128x32xf64>) -> tensor<2x16x32xf64>
    %89 = stablehlo.add %58, %88 : tensor<2x16x32xf64>
    %90 = stablehlo.broadcast_in_dim %arg1, dims = [2] : (tensor<32xf64>) -> tensor<1x1x32xf64>
    %91 = stablehlo.broadcast_in_dim %90, dims = [0, 1, 2] : (tensor<1x1x32xf64>) -> tensor<2x16x32xf64>
    %92 = stablehlo.add %89, %91 : tensor<2x16x32xf64>
    %cst_16 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %93 = stablehlo.reduce(%92 init: %cst_16) applies stablehlo.add across dimensions = [2] : (tensor<2x16x32xf64>, tensor<f64>) -> tensor<2x16xf64>
    %94 = stablehlo.broadcast_in_dim %93, dims = [0, 1] : (tensor<2x16xf64>) -> tensor<2x16x1xf64>
    %cst_17 = stablehlo.constant dense<3.200000e+01> : tensor<f64>
    %95 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f64>) -> tensor<2x16x1xf64>
    %96 = stablehlo.divide %94, %95 : tensor<2x16x1xf64>
    %c_18 = stablehlo.constant dense<0> : tensor<i64>
    %97 = call @_var(%92, %c_18) : (tensor<2x16x32xf64>, tensor<i64>) -> tensor<2x16x1xf64>
    %98 = stablehlo.broadcast_in_dim %96, dims = [0, 1, 2] : (tensor<2x16x1xf64>) -> tensor<2x16x32xf64>
    %99 = stablehlo.subtract %92, %98 : tensor<2x16x32xf64>
    %cst_19 = stablehlo.constant dense<1.000000e-05> : tensor<f64>
    %100 = stablehlo.broadcast_in_dim %cst_19, dims = [] : (tensor<f64>) -> tensor<2x16x1xf64>
    %101 = stablehlo.add %97, %100 : tensor<2x16x1xf64>
    %102 = stablehlo.rsqrt %101 : tensor<2x16x1xf64>
    %103 = stablehlo.broadcast_in_dim %102, dims = [0, 1, 2] : (tensor<2x16x1xf64>) -> tensor<2x16x32xf64>
    %104 = stablehlo.multiply %99, %103 : tensor<2x16x32xf64>
    %105 = stablehlo.broadcast_in_dim %arg7, dims = [2] : (tensor<32xf64>) -> tensor<1x1x32xf64>
    %106 = stablehlo.broadcast_in_dim %105, dims = [0, 1, 2] : (tensor<1x1x32xf64>) -> tensor<2x16x32xf64>
    %107 = stablehlo.multiply %104, %106 : tensor<2x16x32xf64>
    %108 = stablehlo.broadcast_in_dim %arg8, dims = [2] : (tensor<32xf64>) -> tensor<1x1x32xf64>
    %109 = stablehlo.broadcast_in_dim %108, dims = [0, 1, 2] : (tensor<1x1x32xf64>) -> tensor<2x16x32xf64>
    %110 = stablehlo.add %107, %109 : tensor<2x16x32xf64>
    %111 = stablehlo.dot_general %110, %arg10, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x16x32xf64>, tensor<32x48xf64>) -> tensor<2x16x48xf64>
    %112 = call @log_softmax(%111) : (tensor<2x16x48xf64>) -> tensor<2x16x48xf64>
    %113 = stablehlo.broadcast_in_dim %arg16, dims = [0, 1] : (tensor<2x16xi32>) -> tensor<2x16x1xi32>
    %114 = call @take_along_axis(%112, %113) : (tensor<2x16x48xf64>, tensor<2x16x1xi32>) -> tensor<2x16x1xf64>
    %cst_20 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %115 = stablehlo.reduce(%114 init: %cst_20) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x16x1xf64>, tensor<f64>) -> tensor<f64>
    %cst_21 = stablehlo.constant dense<3.200000e+01> : tensor<f64>
    %116 = stablehlo.divide %115, %cst_21 : tensor<f64>
    %117 = stablehlo.negate %116 : tensor<f64>
    return %117 : tensor<f64>
  }
  func.func private @_var(%arg0: tensor<2x16x32xf64>, %arg1: tensor<i64>) -> tensor<2x16x1xf64> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<2x16x32xf64>, tensor<f64>) -> tensor<2x16xf64>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<2x16xf64>) -> tensor<2x16x1xf64>
    %cst_0 = stablehlo.constant dense<3.200000e+01> : tensor<f64>
    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f64>) -> tensor<2x16x1xf64>
    %3 = stablehlo.divide %1, %2 : tensor<2x16x1xf64>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<2x16x1xf64>) -> tensor<2x16x32xf64>
    %5 = stablehlo.subtract %arg0, %4 : tensor<2x16x32xf64>
    %6 = chlo.square %5 : tensor<2x16x32xf64> -> tensor<2x16x32xf64>
    %7 = stablehlo.convert %arg1 : (tensor<i64>) -> tensor<f64>
    %cst_1 = stablehlo.constant dense<3.200000e+01> : tensor<f64>
    %8 = stablehlo.subtract %cst_1, %7 : tensor<f64>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %9 = stablehlo.reduce(%6 init: %cst_2) applies stablehlo.add across dimensions = [2] : (tensor<2x16x32xf64>, tensor<f64>) -> tensor<2x16xf64>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1] : (tensor<2x16xf64>) -> tensor<2x16x1xf64>
    %11 = stablehlo.broadcast_in_dim %8, dims = [] : (tensor<f64>) -> tensor<2x16x1xf64>
    %12 = stablehlo.divide %10, %11 : tensor<2x16x1xf64>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %13 = stablehlo.compare GT, %8, %cst_3, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
    %cst_4 = stablehlo.constant dense<0x7FF8000000000000> : tensor<f64>
    %14 = call @_where(%13, %12, %cst_4) : (tensor<i1>, tensor<2x16x1xf64>, tensor<f64>) -> tensor<2x16x1xf64>
    return %14 : tensor<2x16x1xf64>
  }
  func.func private @_where(%arg0: tensor<i1>, %arg1: tensor<2x16x1xf64>, %arg2: tensor<f64>) -> tensor<2x16x1xf64> {
    %0 = stablehlo.convert %arg2 : tensor<f64>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f64>) -> tensor<2x16x1xf64>
    %2 = stablehlo.select %arg0, %arg1, %1 : tensor<i1>, tensor<2x16x1xf64>
    return %2 : tensor<2x16x1xf64>
  }
  func.func private @tril(%arg0: tensor<16x16xi1>) -> tensor<16x16xi1> {
    %0 = stablehlo.iota dim = 0 : tensor<16x16xi64>
    %c = stablehlo.constant dense<0> : tensor<i64>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i64>) -> tensor<16x16xi64>
    %2 = stablehlo.add %0, %1 : tensor<16x16xi64>
    %3 = stablehlo.iota dim = 1 : tensor<16x16xi64>
    %4 = stablehlo.compare GE, %2, %3, SIGNED : (tensor<16x16xi64>, tensor<16x16xi64>) -> tensor<16x16xi1>
    %c_0 = stablehlo.constant dense<false> : tensor<i1>
    %5 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i1>) -> tensor<16x16xi1>
    %6 = stablehlo.select %4, %arg0, %5 : tensor<16x16xi1>, tensor<16x16xi1>
    return %6 : tensor<16x16xi1>
  }
  func.func private @_where_0(%arg0: tensor<16x16xi1>, %arg1: tensor<2x4x16x16xf64>, %arg2: tensor<f64>) -> tensor<2x4x16x16xf64> {
    %0 = stablehlo.convert %arg2 : tensor<f64>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [2, 3] : (tensor<16x16xi1>) -> tensor<2x4x16x16xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f64>) -> tensor<2x4x16x16xf64>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<2x4x16x16xi1>, tensor<2x4x16x16xf64>
    return %3 : tensor<2x4x16x16xf64>
  }
  func.func private @log_softmax(%arg0: tensor<2x16x48xf64>) -> tensor<2x16x48xf64> {
    %cst = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.maximum across dimensions = [2] : (tensor<2x16x48xf64>, tensor<f64>) -> tensor<2x16xf64>
    %cst_0 = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>
    %1 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f64>) -> tensor<2x16xf64>
    %2 = stablehlo.maximum %1, %0 : tensor<2x16xf64>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<2x16xf64>) -> tensor<2x16x1xf64>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<2x16x1xf64>) -> tensor<2x16x48xf64>
    %5 = stablehlo.subtract %arg0, %4 : tensor<2x16x48xf64>
    %6 = stablehlo.exponential %5 : tensor<2x16x48xf64>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %7 = stablehlo.reduce(%6 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<2x16x48xf64>, tensor<f64>) -> tensor<2x16xf64>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1] : (tensor<2x16xf64>) -> tensor<2x16x1xf64>
    %9 = stablehlo.log %8 : tensor<2x16x1xf64>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2] : (tensor<2x16x1xf64>) -> tensor<2x16x48xf64>
    %11 = stablehlo.subtract %5, %10 : tensor<2x16x48xf64>
    return %11 : tensor<2x16x48xf64>
  }
  func.func private @take_along_axis(%arg0: tensor<2x16x48xf64>, %arg1: tensor<2x16x1xi32>) -> tensor<2x16x1xf64> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<2x16x1xi32>
    %1 = stablehlo.compare LT, %arg1, %0, SIGNED : (tensor<2x16x1xi32>, tensor<2x16x1xi32>) -> tensor<2x16x1xi1>
    %c_0 = stablehlo.constant dense<48> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<2x16x1xi32>
    %3 = stablehlo.add %arg1, %2 : tensor<2x16x1xi32>
    %4 = stablehlo.select %1, %3, %arg1 : tensor<2x16x1xi1>, tensor<2x16x1xi32>
    %5 = stablehlo.reshape %4 : (tensor<2x16x1xi32>) -> tensor<2x16x1x1xi32>
    %c_1 = stablehlo.constant dense<47> : tensor<1xi32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %6 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<2x16x1x1xi32>
    %7 = stablehlo.compare GE, %5, %6, SIGNED : (tensor<2x16x1x1xi32>, tensor<2x16x1x1xi32>) -> tensor<2x16x1x1xi1>
    %8 = stablehlo.broadcast_in_dim %c_1, dims = [3] : (tensor<1xi32>) -> tensor<1x1x1x1xi32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2, 3] : (tensor<1x1x1x1xi32>) -> tensor<2x16x1x1xi32>
    %10 = stablehlo.compare LE, %5, %9, SIGNED : (tensor<2x16x1x1xi32>, tensor<2x16x1x1xi32>) -> tensor<2x16x1x1xi1>
    %11 = stablehlo.and %7, %10 : tensor<2x16x1x1xi1>
    %c_3 = stablehlo.constant dense<true> : tensor<i1>
    %12 = stablehlo.reduce(%11 init: %c_3) applies stablehlo.and across dimensions = [3] : (tensor<2x16x1x1xi1>, tensor<i1>) -> tensor<2x16x1xi1>
    %13 = "stablehlo.gather"(%arg0, %5) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [2], operand_batching_dims = [0, 1], start_indices_batching_dims = [0, 1], start_index_map = [2], index_vector_dim = 3>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1, 1>}> : (tensor<2x16x48xf64>, tensor<2x16x1x1xi32>) -> tensor<2x16x1xf64>
    %cst = stablehlo.constant dense<0x7FF8000000000000> : tensor<f64>
    %14 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<2x16x1xf64>
    %15 = stablehlo.select %12, %13, %14 : tensor<2x16x1xi1>, tensor<2x16x1xf64>
    return %15 : tensor<2x16x1xf64>
  }
}
