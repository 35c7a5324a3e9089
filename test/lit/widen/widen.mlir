// RUN: tiduc opt %s --pass-pipeline=tidu-widen | filecheck %s

// Every float type becomes f64; ops whose results depend on the bits of their operands keep their types.

// CHECK:      func.func @main(%arg0: tensor<3xf64>, %arg1: tensor<3xi32>, %arg2: tensor<3x3xcomplex<f64>>)
// CHECK-NEXT:   %[[C:.*]] = stablehlo.constant dense<[1.000000e+00, 2.000000e+00, 3.000000e+00]> : tensor<3xf64>
// CHECK-NEXT:   %[[I:.*]] = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>
// CHECK-NEXT:   %[[B:.*]] = stablehlo.bitcast_convert %arg1 : (tensor<3xi32>) -> tensor<3xf32>
// CHECK-NEXT:   %[[W:.*]] = stablehlo.convert %[[B]] : (tensor<3xf32>) -> tensor<3xf64>
// CHECK-NEXT:   %[[P:.*]] = stablehlo.reduce_precision %[[W]], format = e11m52 : tensor<3xf64>
// CHECK-NEXT:   %[[N:.*]] = stablehlo.convert %[[P]] : tensor<3xf64>
// CHECK-NEXT:   %[[S:.*]] = stablehlo.add %[[N]], %[[C]] : tensor<3xf64>
// CHECK-NEXT:   %[[T:.*]] = stablehlo.convert %[[S]] : tensor<3xf64>
// CHECK-NEXT:   stablehlo.reduce(%[[T]] init: %[[I]]) applies stablehlo.maximum across dimensions = [0] : (tensor<3xf64>, tensor<f64>) -> tensor<f64>
// CHECK-NEXT:   %[[V:.*]] = stablehlo.convert %arg0 : tensor<3xf64>
// CHECK-NEXT:   %[[F:.*]] = stablehlo.convert %[[V]] : (tensor<3xf64>) -> tensor<3xf32>
// CHECK-NEXT:   stablehlo.bitcast_convert %[[F]] : (tensor<3xf32>) -> tensor<3xi32>
// CHECK-NEXT:   stablehlo.custom_call @lapack_zgetrf_ffi(%arg2) {{.*}} : (tensor<3x3xcomplex<f64>>) -> (tensor<3x3xcomplex<f64>>, tensor<3xi32>, tensor<i32>)
func.func @main(%x: tensor<3xbf16>, %i: tensor<3xi32>, %z: tensor<3x3xcomplex<f32>>)
    -> (tensor<f32>, tensor<3xi32>, tensor<3x3xcomplex<f32>>) {
  %c = stablehlo.constant dense<[1.0, 2.0, 3.0]> : tensor<3xbf16>
  %inf = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.bitcast_convert %i : (tensor<3xi32>) -> tensor<3xf32>
  %1 = stablehlo.reduce_precision %0, format = e5m10 : tensor<3xf32>
  %2 = stablehlo.convert %1 : (tensor<3xf32>) -> tensor<3xbf16>
  %3 = stablehlo.add %2, %c : tensor<3xbf16>
  %4 = stablehlo.convert %3 : (tensor<3xbf16>) -> tensor<3xf32>
  %5 = stablehlo.reduce(%4 init: %inf) applies stablehlo.maximum across dimensions = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
  %6 = stablehlo.convert %x : (tensor<3xbf16>) -> tensor<3xf32>
  %7 = stablehlo.bitcast_convert %6 : (tensor<3xf32>) -> tensor<3xi32>
  %8:3 = stablehlo.custom_call @lapack_cgetrf_ffi(%z) {mhlo.backend_config = {}, api_version = 4 : i32} : (tensor<3x3xcomplex<f32>>) -> (tensor<3x3xcomplex<f32>>, tensor<3xi32>, tensor<i32>)
  return %5, %7, %8#0 : tensor<f32>, tensor<3xi32>, tensor<3x3xcomplex<f32>>
}
