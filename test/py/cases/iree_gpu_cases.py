"""Test cases that IREE without tiduc compiles incorrectly or rejects for GPUs, but compiles correctly for CPUs."""

from collections.abc import Callable
from typing import Any

import numpy as np

from cases.iree_case import Array, Case

RNG = np.random.default_rng(0)


def summed(x: Array, *window: int) -> Array:
    """Returns the sums over windows of an array of integers."""
    views = np.lib.stride_tricks.sliding_window_view(x.astype(np.int64), window)
    return np.asarray(views.sum(axis=tuple(range(-len(window), 0))))


def window(narrow: str, dtype: Any) -> Case:
    """Returns sums of squares over windows. The squares are in f32, which is wider than the type of the operand."""
    x = RNG.integers(-20, 20, (40,)).astype(dtype)
    body = f"""
      %0 = stablehlo.convert %x : (tensor<40x{narrow}>) -> tensor<40xf32>
      %1 = stablehlo.multiply %0, %0 : tensor<40xf32>
      %2 = stablehlo.constant dense<0.0> : tensor<f32>
      %3 = "stablehlo.reduce_window"(%1, %2) ({{
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %4 = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %4 : tensor<f32>
      }}) {{window_dimensions = array<i64: 5>}} : (tensor<40xf32>, tensor<f32>) -> tensor<36xf32>
      return %3 : tensor<36xf32>"""
    expected = summed(np.square(x.astype(np.int64)), 5).astype(np.float32)
    return Case("reduce_window", f"(%x: tensor<40x{narrow}>) -> tensor<36xf32>", body, (x,), expected)


def convolution(narrow: str, dtype: Any) -> Case:
    """Returns a convolution with a kernel of ones. The channels are the second dimension of the operand."""
    x, k = RNG.integers(-20, 20, (1, 2, 9, 10)).astype(dtype), np.ones((4, 5, 2, 1), dtype)
    body = f"""
      %0 = stablehlo.convert %x : (tensor<1x2x9x10x{narrow}>) -> tensor<1x2x9x10xf32>
      %1 = stablehlo.convert %k : (tensor<4x5x2x1x{narrow}>) -> tensor<4x5x2x1xf32>
      %2 = stablehlo.multiply %0, %0 : tensor<1x2x9x10xf32>
      %3 = stablehlo.convolution(%2, %1) dim_numbers = [b, f, 0, 1]x[0, 1, i, o]->[b, 0, 1, f], window = {{}}
        {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
        : (tensor<1x2x9x10xf32>, tensor<4x5x2x1xf32>) -> tensor<1x6x6x1xf32>
      return %3 : tensor<1x6x6x1xf32>"""
    signature = f"(%x: tensor<1x2x9x10x{narrow}>, %k: tensor<4x5x2x1x{narrow}>) -> tensor<1x6x6x1xf32>"
    expected = summed(np.square(x.astype(np.int64)).sum(1), 1, 4, 5).reshape(1, 6, 6, 1).astype(np.float32)
    return Case("convolution", signature, body, (x, k), expected)


def groups(count: int, per_group: int, batch: bool) -> Case:
    """Returns a strided and padded convolution in many groups.

    In convolutions with batch groups, the windows are larger than the result.
    """
    n, size = (count, 9) if batch else (1, 7)
    features, window = (per_group, 8) if batch else (count * per_group, 3)
    x = RNG.integers(-9, 9, (n, features, size, size)).astype(np.float32)
    k = RNG.integers(-9, 9, (2 * count, per_group, window, window)).astype(np.float32)
    places = (size + 2 - window) // 2 + 1
    result = f"tensor<1x{2 * count}x{places}x{places}xf32>"
    kernel = f"tensor<{2 * count}x{per_group}x{window}x{window}xf32>"
    image = f"tensor<{n}x{features}x{size}x{size}xf32>"
    body = f"""
      %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
        window = {{stride = [2, 2], pad = [[1, 1], [1, 1]]}}
        {{batch_group_count = {count if batch else 1} : i64, feature_group_count = {1 if batch else count} : i64}}
        : ({image}, {kernel}) -> {result}
      return %0 : {result}"""
    padded = np.pad(
        x.astype(np.int64).reshape(count, per_group, size, size), ((0, 0), (0, 0), (1, 1), (1, 1))
    )
    windows = np.lib.stride_tricks.sliding_window_view(padded, (window, window), (2, 3))[:, :, ::2, ::2]
    kernels = k.astype(np.int64).reshape(count, 2, per_group, window, window)
    expected = np.einsum("gihwpq,goipq->gohw", windows, kernels).reshape(1, 2 * count, places, places)
    signature = f"(%x: {image}, %k: {kernel}) -> {result}"
    return Case("convolution", signature, body, (x, k), expected.astype(np.float32))


def strided_slice(*, has_unit: bool) -> Case:
    """Returns the sum of every fourth row of a matrix. The matrix may have an additional dimension of size 1."""
    x = RNG.integers(-9, 9, (256, 64)).astype(np.float32)
    unit, bounds = ("1x", "0:1, ") if has_unit else ("", "")
    body = f"""%z = stablehlo.constant dense<0.0> : tensor<f32>
      %r = stablehlo.reshape %x : (tensor<256x64xf32>) -> tensor<256x{unit}64xf32>
      %0 = stablehlo.slice %r [1:256:4, {bounds}0:64] : (tensor<256x{unit}64xf32>) -> tensor<64x{unit}64xf32>
      %1 = stablehlo.reshape %0 : (tensor<64x{unit}64xf32>) -> tensor<64x64xf32>
      %2 = stablehlo.reduce(%1 init: %z) applies stablehlo.add across dimensions = [0]
        : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
      return %2 : tensor<64xf32>"""
    return Case("slice", "(%x: tensor<256x64xf32>) -> tensor<64xf32>", body, (x,), x[1::4].sum(0))


def one_window() -> Case:
    """Returns a convolution with one dilated window, as in the kernel gradient of a strided convolution."""
    x, k = (RNG.integers(-9, 9, shape).astype(np.float32) for shape in ((2, 4, 2, 3), (2, 2, 2, 2)))
    body = """
      %0 = stablehlo.convolution(%x, %k) dim_numbers = [f, 1, 0, b]x[1, o, i, 0]->[f, 0, b, 1],
        window = {stride = [3, 2], rhs_dilate = [1, 3]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
        : (tensor<2x4x2x3xf32>, tensor<2x2x2x2xf32>) -> tensor<2x1x3x1xf32>
      return %0 : tensor<2x1x3x1xf32>"""
    signature = "(%x: tensor<2x4x2x3xf32>, %k: tensor<2x2x2x2xf32>) -> tensor<2x1x3x1xf32>"
    expected = np.einsum("ihwb,hoiw->ob", x[:, ::3], k).reshape(2, 1, 3, 1)
    return Case("convolution", signature, body, (x, k), expected)


def negated_sum(*, moved: bool = False) -> Case:
    """Returns the sums of the rows of a negated matrix. With `moved`, the matrix is transposed after the negation."""
    x = RNG.integers(-9, 9, (64, 8) if moved else (8, 64)).astype(np.float32)
    given = "tensor<64x8xf32>" if moved else "tensor<8x64xf32>"
    rows = f"stablehlo.transpose %0, dims = [1, 0] : ({given}) -> tensor<8x64xf32>"
    body = f"""%z = stablehlo.constant dense<2.0> : tensor<f32>
      %0 = stablehlo.negate %x : {given}
      {f"%1 = {rows}" if moved else ""}
      %2 = stablehlo.reduce({"%1" if moved else "%0"} init: %z) applies stablehlo.add across dimensions = [1]
        : (tensor<8x64xf32>, tensor<f32>) -> tensor<8xf32>
      return %2 : tensor<8xf32>"""
    return Case("reduce", f"(%x: {given}) -> tensor<8xf32>", body, (x,), 2 - x.sum(0 if moved else 1))


def quantized() -> Case:
    """Returns a convolution of a transposed quantized array."""
    q, wide = "!quant.uniform<i8:f32, 0.5:-3>", "!quant.uniform<i32:f32, 0.25>"
    x, k = RNG.integers(-20, 20, (1, 2, 9, 10)).astype(np.float32), np.ones((4, 5, 2, 1), np.float32)
    body = f"""
      %0 = stablehlo.uniform_quantize %x : (tensor<1x2x9x10xf32>) -> tensor<1x2x9x10x{q}>
      %1 = stablehlo.uniform_quantize %k : (tensor<4x5x2x1xf32>) -> tensor<4x5x2x1x{q}>
      %2 = stablehlo.transpose %0, dims = [0, 2, 3, 1] : (tensor<1x2x9x10x{q}>) -> tensor<1x9x10x2x{q}>
      %3 = stablehlo.convolution(%2, %1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {{}}
        {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
        : (tensor<1x9x10x2x{q}>, tensor<4x5x2x1x{q}>) -> tensor<1x6x6x1x{wide}>
      %4 = stablehlo.uniform_dequantize %3 : (tensor<1x6x6x1x{wide}>) -> tensor<1x6x6x1xf32>
      return %4 : tensor<1x6x6x1xf32>"""
    signature = "(%x: tensor<1x2x9x10xf32>, %k: tensor<4x5x2x1xf32>) -> tensor<1x6x6x1xf32>"
    expected = summed(x.sum(1), 1, 4, 5).reshape(1, 6, 6, 1).astype(np.float32)
    return Case("convolution", signature, body, (x, k), expected)


def running() -> Case:
    """Returns the cumulative sums of complex numbers, as sums over padded windows."""
    x = (RNG.integers(-20, 20, 8) + 1j * RNG.integers(-20, 20, 8)).astype(np.complex64)
    body = """
      %0 = stablehlo.constant dense<(0.0, 0.0)> : tensor<complex<f32>>
      %1 = "stablehlo.reduce_window"(%x, %0) ({
      ^bb0(%a: tensor<complex<f32>>, %b: tensor<complex<f32>>):
        %2 = stablehlo.add %a, %b : tensor<complex<f32>>
        stablehlo.return %2 : tensor<complex<f32>>
      }) {window_dimensions = array<i64: 8>, padding = dense<[[7, 0]]> : tensor<1x2xi64>}
        : (tensor<8xcomplex<f32>>, tensor<complex<f32>>) -> tensor<8xcomplex<f32>>
      return %1 : tensor<8xcomplex<f32>>"""
    return Case(
        "reduce_window", "(%x: tensor<8xcomplex<f32>>) -> tensor<8xcomplex<f32>>", body, (x,), np.cumsum(x)
    )


def angles(name: str, exact: Callable[[Array], Array]) -> Case:
    """Returns a trigonometric function of small and large angles, and of angles close to multiples of pi / 2."""
    places = np.arange(1, 40) * np.pi / 2
    x = np.concatenate([RNG.uniform(-9, 9, 20), places, places * 1e4, -places * 1e30, [1e4, 0.5]]).astype(
        np.float32
    )
    type_ = f"tensor<{len(x)}xf32>"
    body = f"%0 = stablehlo.{name} %x : {type_}\nreturn %0 : {type_}"
    return Case(name, f"(%x: {type_}) -> {type_}", body, (x,), exact(x.astype(np.float64)), 4e-7)


def leading_zeros() -> Case:
    x = np.array([0, 1, 1 << 31, 1 << 32, (1 << 62) + 5, -1], np.int64)
    body = "%0 = stablehlo.count_leading_zeros %x : tensor<6xi64>\nreturn %0 : tensor<6xi64>"
    expected = np.array([64, 63, 32, 31, 1, 0], np.int64)
    return Case("count_leading_zeros", "(%x: tensor<6xi64>) -> tensor<6xi64>", body, (x,), expected)


def leading_zeros_of_bytes() -> Case:
    x = np.array([0, 1, -1, 127, -128, 7], np.int8)
    body = "%0 = stablehlo.count_leading_zeros %x : tensor<6xi8>\nreturn %0 : tensor<6xi8>"
    expected = np.array([8, 7, 0, 1, 0, 5], np.int8)
    return Case("count_leading_zeros", "(%x: tensor<6xi8>) -> tensor<6xi8>", body, (x,), expected)


def as_bf16(body: str, x: Array) -> Case:
    """Returns a function whose body computes integers in bf16. The result is their bits."""
    body += """
      %1 = stablehlo.bitcast_convert %0 : (tensor<4xbf16>) -> tensor<4xi16>
      return %1 : tensor<4xi16>"""
    expected = (x.astype(np.float32).view(np.int32) >> 16).astype(np.int16)
    return Case("convert iota", "(%x: tensor<4xi16>) -> tensor<4xi16>", body, (x.astype(np.int16),), expected)


def sort() -> Case:
    """Returns a sort of columns of 300 keys with ties, together with their row indices.

    A single thread would require 90,000 steps for a column.
    """
    x = RNG.integers(0, 50, (300, 2)).astype(np.int32)
    body = """
      %0 = stablehlo.iota dim = 0 : tensor<300x2xi32>
      %1:2 = "stablehlo.sort"(%x, %0) ({
      ^bb0(%a: tensor<i32>, %b: tensor<i32>, %c: tensor<i32>, %d: tensor<i32>):
        %2 = stablehlo.compare GT, %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %2 : tensor<i1>
      }) {dimension = 0 : i64, is_stable = true}
        : (tensor<300x2xi32>, tensor<300x2xi32>) -> (tensor<300x2xi32>, tensor<300x2xi32>)
      return %1#1 : tensor<300x2xi32>"""
    expected = np.argsort(-x, axis=0, kind="stable").astype(np.int32)
    return Case("sort", "(%x: tensor<300x2xi32>) -> tensor<300x2xi32>", body, (x,), expected)


def short_sort() -> Case:
    """Returns a sort of short columns. One thread could sort each column if threads did not share memory."""
    x = RNG.standard_normal((70, 70)).astype(np.float32)
    body = """
      %0 = "stablehlo.sort"(%x) ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %1 = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %1 : tensor<i1>
      }) {dimension = 0 : i64, is_stable = true} : (tensor<70x70xf32>) -> tensor<70x70xf32>
      return %0 : tensor<70x70xf32>"""
    return Case("sort", "(%x: tensor<70x70xf32>) -> tensor<70x70xf32>", body, (x,), np.sort(x, 0))


def softmax() -> Case:
    """Returns a softmax along columns. The results of reductions are broadcast along the reduced dimension."""
    x = RNG.standard_normal((200, 300)).astype(np.float32)
    t, row = "tensor<200x300xf32>", "tensor<300xf32>"
    body = f"""
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %0 = stablehlo.reduce(%x init: %least) applies stablehlo.maximum across dimensions = [0]
        : ({t}, tensor<f32>) -> {row}
      %1 = stablehlo.broadcast_in_dim %0, dims = [1] : ({row}) -> {t}
      %2 = stablehlo.subtract %x, %1 : {t}
      %3 = stablehlo.exponential %2 : {t}
      %4 = stablehlo.reduce(%3 init: %zero) applies stablehlo.add across dimensions = [0]
        : ({t}, tensor<f32>) -> {row}
      %5 = stablehlo.broadcast_in_dim %4, dims = [1] : ({row}) -> {t}
      %6 = stablehlo.divide %3, %5 : {t}
      return %6 : {t}"""
    e = np.exp(x - x.max(0))
    return Case("broadcast_in_dim", f"(%x: {t}) -> {t}", body, (x,), e / e.sum(0), 1e-5)


def counts() -> Case:
    """Returns a histogram of 70,000 numbers."""
    n = 70_000
    x = RNG.integers(0, 5, (n, 1)).astype(np.int32)
    body = f"""
      %0 = stablehlo.constant dense<0> : tensor<5xi32>
      %1 = stablehlo.constant dense<1> : tensor<{n}xi32>
      %2 = "stablehlo.scatter"(%0, %x, %1) ({{
      ^bb0(%a: tensor<i32>, %b: tensor<i32>):
        %3 = stablehlo.add %a, %b : tensor<i32>
        stablehlo.return %3 : tensor<i32>
      }}) {{scatter_dimension_numbers = #stablehlo.scatter<
        inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}
        : (tensor<5xi32>, tensor<{n}x1xi32>, tensor<{n}xi32>) -> tensor<5xi32>
      return %2 : tensor<5xi32>"""
    expected = np.bincount(x[:, 0]).astype(np.int32)
    return Case("scatter", f"(%x: tensor<{n}x1xi32>) -> tensor<5xi32>", body, (x,), expected)


def greatest() -> Case:
    """Returns a reduction that finds the index of the largest of 70,000 numbers."""
    n = 70_000
    x = RNG.normal(size=n).astype(np.float32)
    x[-5] = 9
    body = f"""
      %0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %1 = stablehlo.constant dense<0> : tensor<i32>
      %2 = stablehlo.iota dim = 0 : tensor<{n}xi32>
      %3:2 = stablehlo.reduce(%x init: %0), (%2 init: %1) across dimensions = [0]
        : (tensor<{n}xf32>, tensor<{n}xi32>, tensor<f32>, tensor<i32>) -> (tensor<f32>, tensor<i32>)
        reducer(%a: tensor<f32>, %b: tensor<f32>) (%c: tensor<i32>, %d: tensor<i32>) {{
          %4 = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
          %5 = stablehlo.select %4, %a, %b : tensor<i1>, tensor<f32>
          %6 = stablehlo.select %4, %c, %d : tensor<i1>, tensor<i32>
          stablehlo.return %5, %6 : tensor<f32>, tensor<i32>
        }}
      return %3#1 : tensor<i32>"""
    return Case("reduce", f"(%x: tensor<{n}xf32>) -> tensor<i32>", body, (x,), np.array(n - 5, np.int32))


def table() -> Case:
    """Returns a function with a constant array of complex numbers."""
    body = """%t = stablehlo.constant dense<[(1.0, 2.0), (3.0, 4.0), (5.0, 6.0)]> : tensor<3xcomplex<f32>>
      %0 = stablehlo.real %t : (tensor<3xcomplex<f32>>) -> tensor<3xf32>
      %1 = stablehlo.imag %t : (tensor<3xcomplex<f32>>) -> tensor<3xf32>
      %2 = stablehlo.multiply %0, %1 : tensor<3xf32>
      %3 = stablehlo.add %2, %x : tensor<3xf32>
      return %3 : tensor<3xf32>"""
    return Case(
        "constant",
        "(%x: tensor<3xf32>) -> tensor<3xf32>",
        body,
        (np.float32([1, 2, 3]),),
        np.float32([3, 14, 33]),
    )


def half_product(batches: int, rows: int, columns: int, terms: int) -> Case:
    """Returns products of f16 matrices. If the number of terms is 100, tiles of 16 terms are incomplete."""
    x, y = (RNG.integers(-3, 4, (batches, terms, n)).astype(np.float16) for n in (rows, columns))
    tx, ty, tz = (
        f"tensor<{batches}x{m}x{n}xf16>" for m, n in ((terms, rows), (terms, columns), (rows, columns))
    )
    body = f"""
      %0 = stablehlo.dot_general %x, %y, batching_dims = [0] x [0], contracting_dims = [1] x [1]
        : ({tx}, {ty}) -> {tz}
      return %0 : {tz}"""
    expected = np.einsum("bki,bkj->bij", x.astype(np.float64), y.astype(np.float64)).astype(np.float16)
    return Case("dot_general", f"(%x: {tx}, %y: {ty}) -> {tz}", body, (x, y), expected)


WRONG = {
    "one_window": one_window(),
    "strided_rows": strided_slice(has_unit=False),
    "strided_slice": strided_slice(has_unit=True),
    "groups": groups(80, 1, batch=False),
    "groups_of_two": groups(5, 2, batch=False),
    "groups_of_batch": groups(70, 1, batch=True),
    "groups_of_batch_of_two": groups(4, 2, batch=True),
    "sums_of_i8": window("i8", np.int8),
    "sums_of_f16": window("f16", np.float16),
    "convolution_of_i8": convolution("i8", np.int8),
    "convolution_of_f16": convolution("f16", np.float16),
    "convolution_of_quantized": quantized(),
    "sine": angles("sine", np.sin),
    "cosine": angles("cosine", np.cos),
    "tan": angles("tan", np.tan),
    "softmax": softmax(),
    "sort": sort(),
    "counts": counts(),
    "greatest": greatest(),
}
REJECTED = {
    "negated_sum": negated_sum(),
    "running_sums": running(),
    "leading_zeros": leading_zeros(),
    "leading_zeros_of_bytes": leading_zeros_of_bytes(),
    "constant": table(),
    "iota": as_bf16("%0 = stablehlo.iota dim = 0 : tensor<4xbf16>", np.arange(4)),
    "convert": as_bf16(
        "%0 = stablehlo.convert %x : (tensor<4xi16>) -> tensor<4xbf16>", np.array([-9, 0, 3, 7])
    ),
}
CASES = WRONG | REJECTED
CASES |= {
    "half_batches": half_product(3, 16, 1, 100),
    "half_product": half_product(1, 100, 31, 768),
    "short_sort": short_sort(),
    "negated_columns": negated_sum(moved=True),
}  # cases that IREE without tiduc may compile correctly
