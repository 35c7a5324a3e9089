"""The class of test cases with dynamic sizes, and cases with loops, barriers, clamps and computed sizes."""

import re
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
RNG = np.random.default_rng(0)


class Case(NamedTuple):
    """A function with its arguments and sizes.

    `expected` is the expected result if the reference interpreter cannot compute it correctly.
    """

    signature: str
    body: str
    arguments: tuple[Array, ...]
    sizes: dict[str, int]
    expected: Array | None = None

    def text(self, name: str = "main", *, known: bool = False) -> str:
        """Returns the text of the function with dynamic sizes, or with static sizes if `known` is True."""
        text = f"func.func @{name}{self.signature} {{\n{self.body}\n}}\n"
        return re.sub(r"\?([A-Z])", lambda match: str(self.sizes[match[1]]) if known else "?", text)


def numbers(*shape: int, dtype: Any = np.float32) -> Array:
    return RNG.integers(-20, 20, shape).astype(dtype)


def behind_barrier() -> Case:
    x = "tensor<?Nx?Mxf32>"
    body = f"%0 = stablehlo.optimization_barrier %x : {x}\nreturn %0 : {x}"
    return Case(f"(%x: {x}) -> {x}", body, (numbers(3, 2),), {"N": 3, "M": 2})


def third_of_a_size() -> Case:
    """Returns a program that counts up to a third of a size. It divides the size in f64."""
    body = """%0 = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?Nx2xf32>) -> tensor<i32>
      %1 = stablehlo.convert %0 : (tensor<i32>) -> tensor<i64>
      %2 = stablehlo.convert %1 : (tensor<i64>) -> tensor<f64>
      %3 = stablehlo.constant dense<3.0> : tensor<f64>
      %4 = stablehlo.divide %2, %3 : tensor<f64>
      %5 = stablehlo.ceil %4 : tensor<f64>
      %6 = stablehlo.convert %5 : (tensor<f64>) -> tensor<i64>
      %7 = stablehlo.reshape %6 : (tensor<i64>) -> tensor<1xi64>
      %8 = stablehlo.dynamic_iota %7, dim = 0 : (tensor<1xi64>) -> tensor<?Mxi32>
      return %8 : tensor<?Mxi32>"""
    return Case("(%x: tensor<?Nx2xf32>) -> tensor<?Mxi32>", body, (numbers(7, 2),), {"N": 7, "M": 3})


def sizes_in_vectors() -> Case:
    """Returns a program with a slice and a broadcast whose sizes are concatenated, as JAX does.

    IREE cannot find out which array has these sizes.
    """
    x, y = "tensor<?Nx8x4xf32>", "tensor<?Nx4x4xf32>"
    body = f"""%zero = stablehlo.constant dense<0> : tensor<3xi32>
      %one = stablehlo.constant dense<1> : tensor<3xi32>
      %four = stablehlo.constant dense<4> : tensor<2xi32>
      %init = stablehlo.constant dense<0.0> : tensor<f32>
      %0 = stablehlo.get_dimension_size %x, dim = 0 : ({x}) -> tensor<i32>
      %1 = stablehlo.reshape %0 : (tensor<i32>) -> tensor<1xi32>
      %2 = stablehlo.concatenate %1, %four, dim = 0 : (tensor<1xi32>, tensor<2xi32>) -> tensor<3xi32>
      %3 = stablehlo.optimization_barrier %2 : tensor<3xi32>
      %4 = stablehlo.real_dynamic_slice %x, %zero, %3, %one
        : ({x}, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>) -> {y}
      %5 = stablehlo.reduce(%4 init: %init) applies stablehlo.add across dimensions = [2]
        : ({y}, tensor<f32>) -> tensor<?Nx4xf32>
      %6 = stablehlo.dynamic_broadcast_in_dim %5, %3, dims = [0, 1]
        {{known_nonexpanding_dimensions = array<i64: 0, 1>}} : (tensor<?Nx4xf32>, tensor<3xi32>) -> {y}
      %7 = stablehlo.add %y, %6 : {y}
      return %7 : {y}"""
    images, other = numbers(3, 8, 4), numbers(3, 4, 4)
    expected = other + images[:, :4].sum(2, keepdims=True)  # the interpreter cannot run the slice
    return Case(f"(%x: {x}, %y: {y}) -> {y}", body, (images, other), {"N": 3}, expected)


def reshape_by_equal_sizes() -> Case:
    """Returns a program with a reshape whose sizes begin with the same number as the sizes of a broadcast.

    tiduc hides one of these numbers from IREE, which then reads it in the dispatch of the sum.
    """
    x, y, z = "tensor<?Mx8xf32>", "tensor<?Nx1x4xf32>", "tensor<?Nx2x8xf32>"
    sizes = "(tensor<1xi32>, tensor<2xi32>) -> tensor<3xi32>"
    body = f"""%zero = stablehlo.constant dense<0> : tensor<3xi32>
      %one = stablehlo.constant dense<1> : tensor<3xi32>
      %of_y = stablehlo.constant dense<[1, 4]> : tensor<2xi32>
      %of_z = stablehlo.constant dense<[2, 8]> : tensor<2xi32>
      %of_part = stablehlo.constant dense<[2, 4]> : tensor<2xi32>
      %init = stablehlo.constant dense<0.0> : tensor<f32>
      %n = stablehlo.get_dimension_size %y, dim = 0 : ({y}) -> tensor<i32>
      %k = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
      %0 = stablehlo.concatenate %k, %of_y, dim = 0 : {sizes}
      %1 = stablehlo.concatenate %k, %of_z, dim = 0 : {sizes}
      %2 = stablehlo.dynamic_reshape %x, %1 : ({x}, tensor<3xi32>) -> {z}
      %m = stablehlo.get_dimension_size %2, dim = 0 : ({z}) -> tensor<i32>
      %l = stablehlo.reshape %m : (tensor<i32>) -> tensor<1xi32>
      %3 = stablehlo.concatenate %l, %of_part, dim = 0 : {sizes}
      %4 = stablehlo.real_dynamic_slice %2, %zero, %3, %one
        : ({z}, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>) -> tensor<?Nx2x4xf32>
      %5 = stablehlo.reduce(%4 init: %init) applies stablehlo.add across dimensions = [1]
        : (tensor<?Nx2x4xf32>, tensor<f32>) -> tensor<?Nx4xf32>
      %6 = stablehlo.dynamic_broadcast_in_dim %5, %0, dims = [0, 2]
        {{known_nonexpanding_dimensions = array<i64: 0, 1>}} : (tensor<?Nx4xf32>, tensor<3xi32>) -> {y}
      %7 = stablehlo.add %y, %6 : {y}
      return %7 : {y}"""
    rows, other = numbers(6, 8), numbers(3, 1, 4)
    expected = other + rows.reshape(3, 2, 8)[:, :, :4].sum(
        1, keepdims=True
    )  # the interpreter cannot run the slice
    return Case(f"(%x: {x}, %y: {y}) -> {y}", body, (rows, other), {"N": 3, "M": 6}, expected)


def gather_at_limited_places() -> Case:
    """Returns a gather whose indices are a concatenation, limited by a row of narrower integers."""
    i = "tensor<?Nx2xi64>"
    body = f"""%0 = stablehlo.concatenate %i, %j, dim = 1 : (tensor<?Nx1xi64>, tensor<?Nx1xi64>) -> {i}
      %1 = stablehlo.convert %m : (tensor<2xi32>) -> tensor<2xi64>
      %2 = stablehlo.get_dimension_size %i, dim = 0 : (tensor<?Nx1xi64>) -> tensor<i32>
      %3 = stablehlo.reshape %2 : (tensor<i32>) -> tensor<1xi32>
      %4 = stablehlo.constant dense<2> : tensor<1xi32>
      %5 = stablehlo.concatenate %3, %4, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
      %6 = stablehlo.dynamic_broadcast_in_dim %1, %5, dims = [1]
        {{known_nonexpanding_dimensions = array<i64: 0>}} : (tensor<2xi64>, tensor<2xi32>) -> {i}
      %7 = stablehlo.minimum %0, %6 : {i}
      %8 = "stablehlo.gather"(%x, %7) {{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1],
        start_index_map = [0, 1], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1>}}
        : (tensor<?Mx?Kxf32>, {i}) -> tensor<?Nxf32>
      return %8 : tensor<?Nxf32>"""
    parts = "%i: tensor<?Nx1xi64>, %j: tensor<?Nx1xi64>"
    signature = f"(%x: tensor<?Mx?Kxf32>, {parts}, %m: tensor<2xi32>) -> tensor<?Nxf32>"
    x, rows, columns = numbers(4, 5), np.array([[0], [3], [2]]), np.array([[4], [1], [0]])
    arguments = x, rows, columns, np.array([2, 3], np.int32)
    return Case(signature, body, arguments, {"M": 4, "K": 5, "N": 3}, x[[0, 2, 2], [3, 1, 0]])


def pad_of_masked_gather() -> Case:
    """Returns a padded array. Its elements are gathered where a mask holds, and equal to a number elsewhere."""
    x = "tensor<?Nxf32>"
    body = f"""%zero = stablehlo.constant dense<0> : tensor<1xi32>
      %0 = "stablehlo.gather"(%x, %i) {{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0],
        start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>}} : ({x}, tensor<?Nx1xi32>) -> {x}
      %1 = stablehlo.get_dimension_size %0, dim = 0 : ({x}) -> tensor<i32>
      %2 = stablehlo.reshape %1 : (tensor<i32>) -> tensor<1xi32>
      %3 = stablehlo.dynamic_broadcast_in_dim %v, %2, dims = [] : (tensor<f32>, tensor<1xi32>) -> {x}
      %4 = stablehlo.select %m, %0, %3 : tensor<?Nxi1>, {x}
      %5 = stablehlo.dynamic_pad %4, %v, %zero, %h, %zero
        : ({x}, tensor<f32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?Mxf32>
      return %5 : tensor<?Mxf32>"""
    others = "%m: tensor<?Nxi1>, %v: tensor<f32>, %h: tensor<1xi32>"
    mask = np.array([True, False, True, True])
    indices, value, high = np.array([[3], [0], [0], [1]], np.int32), np.float32(7), np.array([2], np.int32)
    arguments = numbers(4), indices, mask, value, high
    signature = f"(%x: {x}, %i: tensor<?Nx1xi32>, {others}) -> tensor<?Mxf32>"
    return Case(signature, body, arguments, {"N": 4, "M": 6})


def clamped_complex() -> Case:
    """Returns a program that clamps complex numbers between a number and an array."""
    x = "tensor<?Nx3xcomplex<f32>>"
    body = f"""%0 = stablehlo.clamp %l, %x, %h : (tensor<complex<f32>>, {x}, {x}) -> {x}
      return %0 : {x}"""
    arguments = (numbers(*sizes, dtype=np.complex64) for sizes in ((), (4, 3), (4, 3)))
    return Case(f"(%l: tensor<complex<f32>>, %x: {x}, %h: {x}) -> {x}", body, tuple(arguments), {"N": 4})


def while_of_matrices() -> Case:
    """Returns a program with a loop that doubles two matrices in each iteration. The result is their difference."""
    x = "tensor<?Nx?Mxf32>"
    body = f"""%zero = stablehlo.constant dense<0> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %n = stablehlo.constant dense<4> : tensor<i32>
      %r:3 = stablehlo.while(%i = %zero, %u = %x, %v = %y) : tensor<i32>, {x}, {x}
        cond {{
          %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %p : tensor<i1>
        }} do {{
          %j = stablehlo.add %i, %one : tensor<i32>
          %a = stablehlo.add %u, %u : {x}
          %b = stablehlo.add %v, %v : {x}
          stablehlo.return %j, %a, %b : tensor<i32>, {x}, {x}
        }}
      %0 = stablehlo.subtract %r#2, %r#1 : {x}
      return %0 : {x}"""
    return Case(f"(%x: {x}, %y: {x}) -> {x}", body, (numbers(3, 2), numbers(3, 2)), {"N": 3, "M": 2})


def while_of_swapped() -> Case:
    """Returns a program with a loop that permutes three arrays and negates one of them."""
    x = "tensor<?Nxf32>"
    body = f"""%zero = stablehlo.constant dense<0> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %n = stablehlo.constant dense<4> : tensor<i32>
      %r:4 = stablehlo.while(%i = %zero, %u = %x, %v = %y, %w = %z) : tensor<i32>, {x}, {x}, {x}
        cond {{
          %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %p : tensor<i1>
        }} do {{
          %j = stablehlo.add %i, %one : tensor<i32>
          %a = stablehlo.negate %v : {x}
          stablehlo.return %j, %a, %w, %u : tensor<i32>, {x}, {x}, {x}
        }}
      %0 = stablehlo.subtract %r#1, %r#2 : {x}
      %1 = stablehlo.multiply %0, %r#3 : {x}
      return %1 : {x}"""
    arguments = numbers(3), numbers(3), numbers(3)
    return Case(f"(%x: {x}, %y: {x}, %z: {x}) -> {x}", body, arguments, {"N": 3})
