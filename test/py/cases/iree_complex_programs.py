"""Programs of complex numbers for which IREE without tiduc computes wrong results."""

import numpy as np

C1, C3 = "tensor<1xcomplex<f32>>", "tensor<1x3xcomplex<f32>>"
SPREAD = f"""<{{dimension_numbers = #stablehlo.gather<operand_batching_dims = [0],
    start_indices_batching_dims = [0], index_vector_dim = 2>, slice_sizes = array<i64: 1>}}>
    : ({C1}, tensor<1x3x0xi32>) -> {C3}"""
PRODUCT = f"contracting_dims = [0] x [0] : ({C1}, tensor<1x1xcomplex<f32>>) -> {C1}"
PARTS = f"""func.func @main(%x: tensor<1xf32>, %dx: tensor<1xf32>, %u: tensor<1x3xf32>)
    -> (tensor<1x3xf32>, tensor<1x3xf32>, tensor<1xf32>) {{
  %zeros = stablehlo.constant dense<(0.0, 0.0)> : {C1}
  %zero3 = stablehlo.constant dense<0.0> : tensor<1x3xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<1xf32>
  %factor = stablehlo.constant dense<(0.5, 0.0)> : {C1}
  %i = stablehlo.constant dense<> : tensor<1x3x0xi32>
  %0 = stablehlo.complex %x, %x : {C1}
  %1 = stablehlo.reshape %0 : ({C1}) -> tensor<1x1xcomplex<f32>>
  %2 = stablehlo.complex %x, %zero : {C1}
  %3 = stablehlo.multiply %2, %factor : {C1}
  %4 = stablehlo.dot_general %3, %1, {PRODUCT}
  %5 = "stablehlo.gather"(%4, %i) {SPREAD}
  %6 = stablehlo.real %5 : ({C3}) -> tensor<1x3xf32>
  %7 = stablehlo.imag %3 : ({C1}) -> tensor<1xf32>
  %8 = stablehlo.negate %7 : tensor<1xf32>
  %9 = stablehlo.real %3 : ({C1}) -> tensor<1xf32>
  %10 = stablehlo.complex %9, %8 : {C1}
  %11 = stablehlo.complex %dx, %dx : {C1}
  %12 = stablehlo.reshape %11 : ({C1}) -> tensor<1x1xcomplex<f32>>
  %13 = stablehlo.dot_general %3, %12, {PRODUCT}
  %14 = stablehlo.complex %dx, %zero : {C1}
  %15 = stablehlo.multiply %14, %factor : {C1}
  %16 = stablehlo.dot_general %15, %1, {PRODUCT}
  %17 = stablehlo.add %16, %13 : {C1}
  %18 = "stablehlo.gather"(%17, %i) {SPREAD}
  %19 = stablehlo.real %18 : ({C3}) -> tensor<1x3xf32>
  %20 = stablehlo.complex %u, %zero3 : {C3}
  %21 = "stablehlo.scatter"(%zeros, %i, %20) <{{scatter_dimension_numbers = #stablehlo.scatter<
    input_batching_dims = [0], scatter_indices_batching_dims = [0], index_vector_dim = 2>}}> ({{
    ^bb0(%a: tensor<complex<f32>>, %b: tensor<complex<f32>>):
      %25 = stablehlo.add %a, %b : tensor<complex<f32>>
      stablehlo.return %25 : tensor<complex<f32>>
    }}) : ({C1}, tensor<1x3x0xi32>, {C3}) -> {C1}
  %22 = stablehlo.multiply %10, %21 : {C1}
  %24 = stablehlo.real %22 : ({C1}) -> tensor<1xf32>
  return %6, %19, %24 : tensor<1x3xf32>, tensor<1x3xf32>, tensor<1xf32>
}}"""
"""Two products read the complex numbers %3. The conjugate %10 reads the real and imaginary parts of %3."""

R11, C11, C111 = "tensor<1x1xf64>", "tensor<1x1xcomplex<f64>>", "tensor<1x1x1xcomplex<f64>>"
OUTER = f"batching_dims = [0] x [1], contracting_dims = [] x [] : ({C11}, {C11}) -> {C111}"
PRODUCTS = f"""func.func @main(%a: {R11}, %b: {R11}, %c: {R11}, %d: {R11}, %p: {R11}, %q: {R11}, %r: tensor<1x1x1xf64>,
    %i: tensor<1x1x1xf64>, %u: {C11}, %v: {C11}, %w: {C11}, %z: {C111}) -> {C111} {{
  %zero = stablehlo.constant dense<0.0> : {R11}
  %0 = stablehlo.subtract %a, %b : {R11}
  %1 = stablehlo.complex %zero, %0 : {C11}
  %2 = stablehlo.complex %r, %i : {C111}
  %3 = stablehlo.dot_general %2, %1, batching_dims = [0] x [0], contracting_dims = [2] x [1] : ({C111}, {C11}) -> {C11}
  %4 = stablehlo.add %u, %3 : {C11}
  %5 = stablehlo.reshape %4 : ({C11}) -> {C111}
  %6 = stablehlo.complex %p, %q : {C11}
  %7 = stablehlo.multiply %c, %d : {R11}
  %8 = stablehlo.complex %zero, %7 : {C11}
  %9 = stablehlo.add %8, %v : {C11}
  %10 = stablehlo.dot_general %9, %6, {OUTER}
  %11 = stablehlo.dot_general %1, %w, {OUTER}
  %12 = stablehlo.add %11, %10 : {C111}
  %13 = stablehlo.add %12, %5 : {C111}
  %14 = stablehlo.add %13, %z : {C111}
  return %14 : {C111}
}}"""
"""Two products read the complex number %1, whose imaginary part %0 is an array in the same dispatch."""

_SCALARS = [np.full((1, 1), x) for x in (3.0, -1.0, 2.0, 0.5, -2.0, 1.5)]
_ENTRIES = [np.full((1, 1, 1), x) for x in (2.5, -0.5)]
_NUMBERS = [np.full((1, 1), x) for x in (1 + 2j, -3 + 0.5j, 2 - 1j)]

COMPLEX = {
    "parts_in_two_products": (
        PRODUCTS,
        (*_SCALARS, *_ENTRIES, *_NUMBERS, np.full((1, 1, 1), 1 + 3j)),
        None,
    ),
    "parts_of_products": (
        PARTS,
        (
            np.array([1.4], np.float32),
            np.array([0.03], np.float32),
            np.array([[-0.3, 0.6, 0.4]], np.float32),
        ),
        None,
    ),
}
