"""Test cases with dynamic sizes for IREE.

A name such as `?N` stands for a size in a program. In the text for IREE, it is a dynamic size. In the text for the
reference interpreter, it is a number.
"""

from typing import Any

import numpy as np

from cases import iree_dynamic_case as loops
from cases.iree_dynamic_case import RNG, Array, Case, behind_barrier, numbers
from cases.iree_dynamic_convolutions import CONVOLUTIONS


def reshaped(type_: str, dtype: Any) -> Case:
    a, b = f"tensor<?Nx2x3x{type_}>", f"tensor<?Mx?Kx{type_}>"
    body = f"%0 = stablehlo.dynamic_reshape %x, %n : ({a}, tensor<2xi32>) -> {b}\nreturn %0 : {b}"
    sizes = np.array([2, 12], np.int32)
    return Case(
        f"(%x: {a}, %n: tensor<2xi32>) -> {b}",
        body,
        (numbers(4, 2, 3, dtype=dtype), sizes),
        {"N": 4, "M": 2, "K": 12},
    )


def updated(start: int) -> Case:
    body = """%0 = stablehlo.dynamic_update_slice %x, %u, %i, %j
        : (tensor<?Nx4xf32>, tensor<?Mx2xf32>, tensor<i8>, tensor<i8>) -> tensor<?Nx4xf32>
      return %0 : tensor<?Nx4xf32>"""
    signature = (
        "(%x: tensor<?Nx4xf32>, %u: tensor<?Mx2xf32>, %i: tensor<i8>, %j: tensor<i8>) -> tensor<?Nx4xf32>"
    )
    arguments = numbers(5, 4), numbers(2, 2), np.array(start, np.int8), np.array(1, np.int8)
    return Case(signature, body, arguments, {"N": 5, "M": 2})


def padded(low: list[int], high: list[int], interior: list[int], type_: str, dtype: Any) -> Case:
    n, m = ((n + (n - 1) * i + a + b) for n, a, b, i in zip((5, 3), low, high, interior, strict=True))
    x, y = f"tensor<?Nx3x{type_}>", f"tensor<?Mx{m}x{type_}>"
    body = f"""%0 = stablehlo.pad %x, %v, low = {low}, high = {high}, interior = {interior}
        : ({x}, tensor<{type_}>) -> {y}
      return %0 : {y}"""
    arguments = numbers(5, 3, dtype=dtype), np.array(7, dtype)
    return Case(f"(%x: {x}, %v: tensor<{type_}>) -> {y}", body, arguments, {"N": 5, "M": n})


def padded_by_operands() -> Case:
    body = """%i = stablehlo.constant dense<[0, 1]> : tensor<2xi32>
      %0 = stablehlo.dynamic_pad %x, %v, %l, %h, %i
        : (tensor<?Nx3xf32>, tensor<f32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?Mx?Kxf32>
      return %0 : tensor<?Mx?Kxf32>"""
    signature = (
        "(%x: tensor<?Nx3xf32>, %v: tensor<f32>, %l: tensor<2xi32>, %h: tensor<2xi32>) -> tensor<?Mx?Kxf32>"
    )
    ends = np.array([1, -1], np.int32), np.array([-2, 2], np.int32)
    return Case(signature, body, (numbers(5, 3), np.float32(7), *ends), {"N": 5, "M": 4, "K": 6})


def gathered(type_: str, indices: Array) -> Case:
    """Returns a gather of slices. Some start indices are out of range."""
    body = f"""%0 = "stablehlo.gather"(%x, %i) {{dimension_numbers = #stablehlo.gather<offset_dims = [0, 2],
        collapsed_slice_dims = [0], start_index_map = [2, 0], index_vector_dim = 1>,
        slice_sizes = array<i64: 1, 4, 2>}} : (tensor<?Nx4x5xf32>, tensor<?Mx2x{type_}>) -> tensor<4x?Mx2xf32>
      return %0 : tensor<4x?Mx2xf32>"""
    signature = f"(%x: tensor<?Nx4x5xf32>, %i: tensor<?Mx2x{type_}>) -> tensor<4x?Mx2xf32>"
    x = numbers(3, 4, 5)
    columns, rows = (
        np.minimum(np.maximum(i, 0), n).astype(int) for i, n in zip(indices.T, (3, 2), strict=True)
    )
    expected = np.stack([x[i, :, j : j + 2] for i, j in zip(rows, columns, strict=True)], 1)
    return Case(signature, body, (x, indices), {"N": 3, "M": len(indices)}, expected)


def gathered_in_batches() -> Case:
    body = """%s = stablehlo.concatenate %one, %n, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
      %t = stablehlo.concatenate %s, %one, dim = 0 : (tensor<2xi32>, tensor<1xi32>) -> tensor<3xi32>
      %0 = "stablehlo.dynamic_gather"(%x, %i, %t) {dimension_numbers = #stablehlo.gather<offset_dims = [2],
        collapsed_slice_dims = [2], operand_batching_dims = [0], start_indices_batching_dims = [1],
        start_index_map = [2], index_vector_dim = 2>}
        : (tensor<?Nx?Kx4xf32>, tensor<3x?Nx1xi64>, tensor<3xi32>) -> tensor<3x?Nx?Kxf32>
      return %0 : tensor<3x?Nx?Kxf32>"""
    signature = (
        "(%x: tensor<?Nx?Kx4xf32>, %i: tensor<3x?Nx1xi64>, %one: tensor<1xi32>, %n: tensor<1xi32>)"
        " -> tensor<3x?Nx?Kxf32>"
    )
    one, n = (np.array([k], np.int32) for k in (1, 5))
    return Case(
        signature, body, (numbers(2, 5, 4), numbers(3, 2, 1, dtype=np.int64), one, n), {"N": 2, "K": 5}
    )


def scattered(type_: str, operand: Array, indices: Array, updates: str, values: Array, numbers: str) -> Case:
    x, i = f"tensor<?Nx4x5x{type_}>", f"tensor<?Mx{indices.shape[1]}xi64>"
    u = f"tensor<{updates}x{type_}>"
    body = f"""%0 = "stablehlo.scatter"(%x, %i, %u) ({{
      ^bb0(%a: tensor<{type_}>, %b: tensor<{type_}>):
        %1 = stablehlo.add %a, %b : tensor<{type_}>
        stablehlo.return %1 : tensor<{type_}>
      }}) {{scatter_dimension_numbers = #stablehlo.scatter<{numbers}, index_vector_dim = 1>}} : ({x}, {i}, {u}) -> {x}
      return %0 : {x}"""
    sizes = {"N": len(operand), "M": len(indices)}
    return Case(f"(%x: {x}, %i: {i}, %u: {u}) -> {x}", body, (operand, indices, values), sizes)


def reduced(op: str, type_: str, x: Array, attributes: str, result: str, **sizes: int) -> Case:
    types = f"tensor<?Nx{x.shape[1]}x{type_}>", f"tensor<{result}x{type_}>"
    body = f"""%0 = stablehlo.constant dense<{"1.0" if type_ == "f32" else "1"}> : tensor<{type_}>
      %1 = "stablehlo.reduce_window"(%x, %0) ({{
      ^bb0(%a: tensor<{type_}>, %b: tensor<{type_}>):
        %2 = stablehlo.{op} %a, %b : tensor<{type_}>
        stablehlo.return %2 : tensor<{type_}>
      }}) {{{attributes}}} : ({types[0]}, tensor<{type_}>) -> {types[1]}
      return %1 : {types[1]}"""
    return Case(f"(%x: {types[0]}) -> {types[1]}", body, (x,), {"N": len(x), **sizes})


def largest_with_place() -> Case:
    """Returns a reduction over windows of two arrays.

    For each window, the result is the element of the second array at the index of the least element of the first array.
    """
    body = """%0 = stablehlo.constant dense<0x7F800000> : tensor<f32>
      %1 = stablehlo.constant dense<-1> : tensor<i32>
      %2:2 = "stablehlo.reduce_window"(%x, %y, %0, %1) ({
      ^bb0(%a: tensor<f32>, %i: tensor<i32>, %b: tensor<f32>, %j: tensor<i32>):
        %3 = stablehlo.compare LE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %4 = stablehlo.select %3, %a, %b : tensor<i1>, tensor<f32>
        %5 = stablehlo.select %3, %i, %j : tensor<i1>, tensor<i32>
        stablehlo.return %4, %5 : tensor<f32>, tensor<i32>
      }) {window_dimensions = array<i64: 1, 3>, padding = dense<[[0, 0], [1, 1]]> : tensor<2x2xi64>}
        : (tensor<?Nx6xf32>, tensor<?Nx6xi32>, tensor<f32>, tensor<i32>) -> (tensor<?Nx6xf32>, tensor<?Nx6xi32>)
      return %2#1 : tensor<?Nx6xi32>"""
    signature = "(%x: tensor<?Nx6xf32>, %y: tensor<?Nx6xi32>) -> tensor<?Nx6xi32>"
    x = RNG.permutation(12).reshape(2, 6).astype(np.float32)
    return Case(signature, body, (x, numbers(2, 6, dtype=np.int32)), {"N": 2})


def multiplied(x: str, y: str, z: str, dimensions: str, arguments: tuple[Array, ...], **sizes: int) -> Case:
    x, y, z = (f"tensor<{t}{'x' if t else ''}f32>" for t in (x, y, z))
    body = f"%0 = stablehlo.dot_general %x, %y, {dimensions} : ({x}, {y}) -> {z}\nreturn %0 : {z}"
    return Case(f"(%x: {x}, %y: {y}) -> {z}", body, arguments, sizes)


def scattered_twice() -> Case:
    """Returns the sum of two scatters of rows with the same indices."""
    x, u, i = "tensor<?Nx2xf32>", "tensor<2x2xf32>", "tensor<2x1xi64>"

    def scatter(body: str) -> str:
        return f"""= "stablehlo.scatter"(%x, %j, %u) <{{
          scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0],
            scatter_dims_to_operand_dims = [0], index_vector_dim = 1>,
          indices_are_sorted = false, unique_indices = false
        }}> ({{
        ^bb0(%p: tensor<f32>, %q: tensor<f32>):
          {body}
        }}) : ({x}, {i}, {u}) -> {x}"""

    body = f"""%j = stablehlo.reshape %i : (tensor<2xi64>) -> {i}
      %0 {scatter("stablehlo.return %q : tensor<f32>")}
      %1 {scatter("%r = stablehlo.add %p, %q : tensor<f32>" + chr(10) + "stablehlo.return %r : tensor<f32>")}
      %2 = stablehlo.add %0, %1 : {x}
      return %2 : {x}"""
    arguments = numbers(4, 2), np.array([2, 0], np.int64), numbers(2, 2)
    return Case(f"(%x: {x}, %i: tensor<2xi64>, %u: {u}) -> {x}", body, arguments, {"N": 4})


def normalized() -> Case:
    """Returns a function that subtracts the sum of each column of x from the elements of the column."""
    body = """%0 = stablehlo.constant dense<0.0> : tensor<f32>
      %1 = stablehlo.reduce(%x init: %0) applies stablehlo.add across dimensions = [0]
        : (tensor<?Nx4xf32>, tensor<f32>) -> tensor<4xf32>
      %2 = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?Nx4xf32>) -> tensor<i32>
      %3 = stablehlo.reshape %2 : (tensor<i32>) -> tensor<1xi32>
      %4 = stablehlo.constant dense<4> : tensor<1xi32>
      %5 = stablehlo.concatenate %3, %4, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
      %6 = stablehlo.dynamic_broadcast_in_dim %1, %5, dims = [1] : (tensor<4xf32>, tensor<2xi32>) -> tensor<?Nx4xf32>
      %7 = stablehlo.subtract %x, %6 : tensor<?Nx4xf32>
      return %7 : tensor<?Nx4xf32>"""
    return Case("(%x: tensor<?Nx4xf32>) -> tensor<?Nx4xf32>", body, (numbers(5, 4),), {"N": 5})


def widened() -> Case:
    """Returns a broadcast of an array with the dynamic sizes 1 x 1 to a matrix."""
    body = """%0 = stablehlo.convert %x : (tensor<?Nx1xi32>) -> tensor<?Nx1xi64>
      %1 = stablehlo.dynamic_broadcast_in_dim %0, %n, dims = [0, 1]
        : (tensor<?Nx1xi64>, tensor<2xi32>) -> tensor<?Mx?Kxi64>
      return %1 : tensor<?Mx?Kxi64>"""
    signature = "(%x: tensor<?Nx1xi32>, %n: tensor<2xi32>) -> tensor<?Mx?Kxi64>"
    sizes = np.array([4, 3], np.int32)
    return Case(signature, body, (numbers(1, 1, dtype=np.int32), sizes), {"N": 1, "M": 4, "K": 3})


def widened_then_converted() -> Case:
    """Returns a broadcast and a conversion to integers. The program reads the sizes from an array."""
    body = """%c = stablehlo.constant dense<4> : tensor<1xi32>
      %s = stablehlo.concatenate %n, %c, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
      %0 = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [0, 1]
        : (tensor<?Nx1xf32>, tensor<2xi32>) -> tensor<?Mx4xf32>
      %1 = stablehlo.convert %0 : (tensor<?Mx4xf32>) -> tensor<?Mx4xi32>
      return %1 : tensor<?Mx4xi32>"""
    signature = "(%x: tensor<?Nx1xf32>, %n: tensor<1xi32>) -> tensor<?Mx4xi32>"
    return Case(signature, body, (numbers(1, 1), np.array([3], np.int32)), {"N": 1, "M": 3})


def turned() -> Case:
    """Returns a broadcast that transposes a matrix."""
    body = """%0 = stablehlo.dynamic_broadcast_in_dim %x, %n, dims = [1, 0]
        : (tensor<?Nx?Mxf32>, tensor<2xi32>) -> tensor<?Mx?Nxf32>
      return %0 : tensor<?Mx?Nxf32>"""
    signature = "(%x: tensor<?Nx?Mxf32>, %n: tensor<2xi32>) -> tensor<?Mx?Nxf32>"
    return Case(signature, body, (numbers(3, 2), np.array([2, 3], np.int32)), {"N": 3, "M": 2})


def concatenated() -> Case:
    body = """%0 = stablehlo.concatenate %x, %y, %y, dim = 1
        : (tensor<?Nx1xf32>, tensor<?Nx?Mxf32>, tensor<?Nx?Mxf32>) -> tensor<?Nx?Kxf32>
      return %0 : tensor<?Nx?Kxf32>"""
    signature = "(%x: tensor<?Nx1xf32>, %y: tensor<?Nx?Mxf32>) -> tensor<?Nx?Kxf32>"
    return Case(signature, body, (numbers(4, 1), numbers(4, 1)), {"N": 4, "M": 1, "K": 3})


def bytes_along() -> Case:
    """Returns a concatenation of the size of a ui8 array and the array in reverse order."""
    body = """%0 = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?Nx2xui8>) -> tensor<i32>
      %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<i32>) -> tensor<1x2xi32>
      %2 = stablehlo.reverse %x, dims = [0] : tensor<?Nx2xui8>
      %3 = stablehlo.convert %2 : (tensor<?Nx2xui8>) -> tensor<?Nx2xi32>
      %4 = stablehlo.concatenate %1, %3, dim = 0 : (tensor<1x2xi32>, tensor<?Nx2xi32>) -> tensor<?Mx2xi32>
      return %4 : tensor<?Mx2xi32>"""
    x = RNG.integers(0, 255, (3, 2)).astype(np.uint8)
    return Case("(%x: tensor<?Nx2xui8>) -> tensor<?Mx2xi32>", body, (x,), {"N": 3, "M": 4})


def twice_a_size() -> Case:
    """Returns a function whose result is twice a size as ui64."""
    body = """%0 = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?Nx2xf32>) -> tensor<i32>
      %1 = stablehlo.add %0, %0 : tensor<i32>
      %2 = stablehlo.convert %1 : (tensor<i32>) -> tensor<ui64>
      return %2 : tensor<ui64>"""
    return Case("(%x: tensor<?Nx2xf32>) -> tensor<ui64>", body, (numbers(3, 2),), {"N": 3})


def sorted_columns(type_: str, sizes: tuple[int, ...] = (30, 3), dimension: int = 0) -> Case:
    """Returns a stable sort with ties whose result is the sorted second operand.

    N and M are the first and the last size of the operands.
    """
    x, y = f"tensor<{type_}xi32>", f"tensor<{type_}xi8>"
    body = f"""%0:2 = "stablehlo.sort"(%x, %y) ({{
      ^bb0(%a: tensor<i32>, %b: tensor<i32>, %c: tensor<i8>, %d: tensor<i8>):
        %1 = stablehlo.compare LT, %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %1 : tensor<i1>
      }}) {{dimension = {dimension} : i64, is_stable = true}} : ({x}, {y}) -> ({x}, {y})
      return %0#1 : {y}"""
    arguments = RNG.integers(0, 5, sizes).astype(np.int32), numbers(*sizes, dtype=np.int8)
    return Case(f"(%x: {x}, %y: {y}) -> {y}", body, arguments, {"N": sizes[0], "M": sizes[-1]})


ROWS = "update_window_dims = [1, 2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0]"
WINDOWS = "update_window_dims = [1, 2], inserted_window_dims = [1], scatter_dims_to_operand_dims = [2, 1]"
AT = np.array([[1], [3], [-1], [2], [1], [2**40 + 1]], np.int64)
PAIRS = np.array([[1, 0], [4, 3], [-1, 2], [0, 4]], np.int64)

CASES = {
    "reshape": reshaped("f32", np.float32),
    "reshape_unsigned": reshaped("ui16", np.uint16),
    "update": updated(2),
    "update_beyond": updated(100),
    "update_before": updated(-3),
    "barrier": Case(
        "(%x: tensor<?Nxf32>) -> tensor<?Nxf32>",
        """%0 = stablehlo.optimization_barrier %x : tensor<?Nxf32>
      %1 = stablehlo.multiply %0, %0 : tensor<?Nxf32>
      return %1 : tensor<?Nxf32>""",
        (numbers(5),),
        {"N": 5},
    ),
    "pad": padded([1, 0], [0, 2], [0, 0], "f32", np.float32),
    "pad_cutting": padded([-1, 2], [1, -1], [1, 0], "ui8", np.uint8),
    "pad_between": padded([-2, 0], [-1, 1], [2, 1], "f32", np.float32),
    "dynamic_pad": padded_by_operands(),
    "gather": gathered("i32", np.array([[1, 2], [-3, 9], [7, 0]], np.int32)),
    "gather_unsigned": gathered("ui64", np.array([[1, 2], [2**63 + 1, 1]], np.uint64)),
    "gather_far": gathered("i64", np.array([[2**40 + 1, -(2**33)], [1, 2**32]], np.int64)),
    "dynamic_gather": gathered_in_batches(),
    "scatter_rows": scattered("f32", numbers(3, 4, 5), AT, "?Mx4x5", numbers(6, 4, 5), ROWS),
    "scatter_unsigned": scattered(
        "ui8", numbers(3, 4, 5, dtype=np.uint8), AT, "?Mx4x5", numbers(6, 4, 5, dtype=np.uint8), ROWS
    ),
    "scatter_windows": scattered("f32", numbers(3, 4, 5), PAIRS, "?Mx?Nx2", numbers(4, 3, 2), WINDOWS),
    "windows": reduced("add", "f32", numbers(3, 6), "window_dimensions = array<i64: 1, 2>", "?Nx5"),
    "windows_of_open": reduced(
        "maximum",
        "i32",
        numbers(9, 5, dtype=np.int32),
        "window_dimensions = array<i64: 3, 2>, window_strides = array<i64: 2, 3>, window_dilations = array<i64: 2, 1>,"
        " padding = dense<[[1, 1], [0, 1]]> : tensor<2x2xi64>",
        "?Mx2",
        M=4,
    ),
    "windows_apart": reduced(
        "add",
        "f32",
        numbers(3, 6),
        "window_dimensions = array<i64: 1, 4>, base_dilations = array<i64: 2, 2>,"
        " padding = dense<[[-1, 0], [2, -1]]> : tensor<2x2xi64>",
        "?Mx9",
        M=4,
    ),
    "windows_of_many": reduced(
        "add",
        "f32",
        numbers(2, 40),
        "window_dimensions = array<i64: 1, 11>, window_strides = array<i64: 1, 3>, window_dilations = array<i64: 1, 2>",
        "?Nx7",
    ),
    "windows_of_pairs": largest_with_place(),
    **CONVOLUTIONS,
    "dot": multiplied(
        "?Nx2x4", "4x3", "?Nx2x3", "contracting_dims = [2] x [0]", (numbers(5, 2, 4), numbers(4, 3)), N=5
    ),
    "dot_of_vector": multiplied(
        "2x?N", "2", "?N", "contracting_dims = [0] x [0]", (numbers(2, 5), numbers(2)), N=5
    ),
    "dot_of_row": multiplied(
        "1x?N", "?Nx3", "1x3", "contracting_dims = [1] x [0]", (numbers(1, 5), numbers(5, 3)), N=5
    ),
    "dot_of_vectors": multiplied(
        "?N", "?N", "", "contracting_dims = [0] x [0]", (numbers(5), numbers(5)), N=5
    ),
    "outer_product": multiplied(
        "?N", "?M", "?Nx?M", "contracting_dims = [] x []", (numbers(5), numbers(3)), N=5, M=3
    ),
    "dot_of_one_batch": multiplied(
        "1x2x?N",
        "1x?Nx3",
        "1x2x3",
        "batching_dims = [0] x [0], contracting_dims = [2] x [1]",
        (numbers(1, 2, 5), numbers(1, 5, 3)),
        N=5,
    ),
    "outer_products": multiplied(
        "?Nx?Mx1x2",
        "3x?Nx?Mx1",
        "?Nx?Mx2x3",
        "batching_dims = [0, 1] x [1, 2], contracting_dims = [2] x [3]",
        (numbers(5, 4, 1, 2), numbers(3, 5, 4, 1)),
        N=5,
        M=4,
    ),
    "scatters_by_equal_indices": scattered_twice(),
    "while_of_matrices": loops.while_of_matrices(),
    "while_of_swapped": loops.while_of_swapped(),
    "barrier_of_matrix": behind_barrier(),
    "clamp_complex": loops.clamped_complex(),
    "dot_of_two": multiplied(
        "2x?Nx3",
        "5x3x?N",
        "2x5",
        "contracting_dims = [1, 2] x [2, 1]",
        (numbers(2, 4, 3), numbers(5, 3, 4)),
        N=4,
    ),
    "sort": sorted_columns("?Nx3"),
    "sort_of_rows": sorted_columns("30x?M"),
    # With these sizes, IREE crashes when it compiles code for GPUs, or rejects the code.
    "sort_along_rows": sorted_columns("?Nx32", (5, 32), 1),
    "sort_in_between": sorted_columns("?Nx8x32", (3, 8, 32), 1),
    "normalized": normalized(),
    "widened": widened(),
    "widened_then_converted": widened_then_converted(),
    "turned": turned(),
    "concatenate": concatenated(),
    "unsigned": bytes_along(),
    "unsigned_size": twice_a_size(),
    "size_in_floats": loops.third_of_a_size(),
    "sizes_in_vectors": loops.sizes_in_vectors(),
    "reshape_by_equal_sizes": loops.reshape_by_equal_sizes(),
    "gather_at_limited_places": loops.gather_at_limited_places(),
    "pad_of_masked_gather": loops.pad_of_masked_gather(),
}


ON_GPUS = (
    "update",
    "pad_between",
    "gather_far",
    "scatter_rows",
    "scatter_windows",
    "windows_of_open",
    "sort",
    "sort_of_rows",
    "sort_along_rows",
    "sort_in_between",
)
ON_GPUS += ("convolution_padded", "dot", "normalized", "widened", "concatenate", "unsigned")
