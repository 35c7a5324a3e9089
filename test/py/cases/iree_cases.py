"""Test cases that IREE without tiduc compiles incorrectly or rejects.

For the functions in `WRONG`, IREE computes wrong results. For those in `REJECTED`, it reports an error or crashes. The
functions in `UNSAFE` are never run on IREE without tiduc, because they may crash or exhaust the memory.
"""

from typing import Any

import numpy as np

from cases import iree_half_cases as halves
from cases import iree_loop_cases as loops
from cases import iree_window_cases as windows
from cases.iree_case import INF, NAN, Array, Case

RNG = np.random.default_rng(0)


def unary(op: str, type_: str, x: Array, expected: Array, rtol: float = 0.0) -> Case:
    body = f"%0 = stablehlo.{op} %x : {type_}\nreturn %0 : {type_}"
    return Case(op, f"(%x: {type_}) -> {type_}", body, (x,), expected, rtol)


def binary(op: str, type_: str, x: Array, y: Array, expected: Array, rtol: float = 0.0) -> Case:
    body = f"%0 = stablehlo.{op} %x, %y : {type_}\nreturn %0 : {type_}"
    return Case(op, f"(%x: {type_}, %y: {type_}) -> {type_}", body, (x, y), expected, rtol)


def to_integer(type_: str, dtype: Any, x: Array) -> Case:
    n = len(x)
    limits = np.iinfo(dtype)
    exact = [0 if np.isnan(v) else limits.max if v > limits.max else max(v, limits.min) for v in x.tolist()]
    expected = np.array([int(v) for v in exact], dtype)
    body = f"%0 = stablehlo.convert %x : (tensor<{n}xf32>) -> tensor<{n}x{type_}>\nreturn %0 : tensor<{n}x{type_}>"
    return Case("convert", f"(%x: tensor<{n}xf32>) -> tensor<{n}x{type_}>", body, (x,), expected)


SCALARS = np.array([0, -8.5, 3e9, INF, -INF, NAN, 200, -1e30], np.float32)
X = np.array([-2, -2, 0, -0.0, -INF, INF, NAN, -1, 2.5, -2], np.float32)
Y = np.array([3, 0.5, 0, -3, 3, -1, 0, INF, 0.5, -2], np.float32)
TINY = {
    dtype: np.array(
        [*(at := [limits.smallest_subnormal, limits.tiny / 2, 0, 0.5, limits.tiny]), *(-x for x in at)], dtype
    )
    for dtype, limits in ((np.float32, np.finfo(np.float32)), (np.float64, np.finfo(np.float64)))
}
"""Numbers near 0. Among the numbers of each sign, the first two are subnormal."""
FAR = np.array([1e4, 1e5, -3e7, 9e8, 1e30, 3, 0.5, np.pi], np.float32)
EXPONENTS = np.array([0, -1, -3, -15, 127, 128, -126, -160, 1e30, INF, -INF, NAN], np.float32)
SMALL = np.array([1e-20, 1e-10, -1e-5, 1e-3, 0.5, -0.9])
TIED = RNG.integers(0, 5, 500).astype(np.int32)
TABLE, ROWS = np.arange(5, dtype=np.float32), np.array([[0], [2], [200], [4]], np.uint8)


def scattered(x: Array, indices: Array, updates: Array) -> Array:
    """Adds the rows of `updates` to the rows of x at the indices. Rows whose index is out of range are ignored."""
    y = x.copy()
    for i, row in zip(indices[:, 0], updates, strict=True):
        if 0 <= i < len(y):
            y[i] += row
    return y


def stable_sort(x: Array, expected: Array) -> Case:
    """Returns a stable sort whose result is the original indices of the sorted elements."""
    i = f"tensor<{len(x)}xi32>"
    arguments = ", ".join(f"%a{k}: tensor<i32>" for k in range(4))
    body = f"""%i = stablehlo.iota dim = 0 : {i}
      %0:2 = "stablehlo.sort"(%x, %i) <{{dimension = 0 : i64, is_stable = true}}> ({{
      ^bb0({arguments}):
        %p = stablehlo.compare LT, %a0, %a1 : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
      }}) : ({i}, {i}) -> ({i}, {i})
      return %0#1 : {i}"""
    return Case("sort", f"(%x: {i}) -> {i}", body, (x,), expected)


C2 = "tensor<2xcomplex<f64>>"
STARTS = np.array([[1], [7], [-1], [0], [3]], np.int32)
UPDATES = RNG.integers(1, 9, (5, 2)).astype(np.float32)

WRONG = {
    "add_predicates": binary(
        "add", "tensor<2xi1>", np.array([True, True]), np.array([True, False]), np.array([True] * 2)
    ),
    "power": binary(
        "power", "tensor<10xf32>", X, Y, np.array([-8, NAN, 1, -INF, -INF, 0, 1, 1, 2.5**0.5, 0.25]), 1e-6
    ),
    "power_of_zero": binary(
        "power",
        "tensor<5xi32>",
        np.array([0, 0, 0, -1, 0], np.int32),
        np.array([64, 128, 3, 65, 0], np.int32),
        np.array([0, 0, 0, -1, 1], np.int32),
    ),
    "powers_of_two": Case(
        "power",
        f"(%x: tensor<{len(EXPONENTS)}xf32>) -> tensor<{len(EXPONENTS)}xf32>",
        f"""%c = stablehlo.constant dense<2.0> : tensor<{len(EXPONENTS)}xf32>
      %0 = stablehlo.power %c, %x : tensor<{len(EXPONENTS)}xf32>
      return %0 : tensor<{len(EXPONENTS)}xf32>""",
        (EXPONENTS,),
        np.array([1, 0.5, 0.125, 2**-15, 2.0**127, INF, 2**-126, 0, INF, INF, 0, NAN], np.float32),
    ),
    "atan2": binary(
        "atan2",
        "tensor<4xf32>",
        np.array([0, -0.0, INF, -INF], np.float32),
        np.array([0, -0.0, INF, -INF], np.float32),
        np.array([0, -np.pi, np.pi / 4, -3 * np.pi / 4]),
        1e-6,
    ),
    "cbrt_infinity": unary(
        "cbrt", "tensor<3xf32>", np.array([INF, -INF, 8], np.float32), np.array([INF, -INF, 2]), 1e-6
    ),
    **{
        f"{name}_{type_}": unary(name, f"tensor<10x{type_}>", TINY[dtype], exact(TINY[dtype]))
        for name, exact in (("ceil", np.ceil), ("floor", np.floor))
        for type_, dtype in (("f32", np.float32), ("f64", np.float64))
    },
    "convert_i8": to_integer("i8", np.int8, SCALARS),
    "convert_i32": to_integer("i32", np.int32, SCALARS),
    "convert_ui32": to_integer("ui32", np.uint32, SCALARS),
    "convert_i64": to_integer("i64", np.int64, SCALARS),
    "convert_ui64": to_integer("ui64", np.uint64, SCALARS),
    "sine": unary("sine", "tensor<8xf32>", FAR, np.sin(FAR.astype(np.float64)), 1e-6),
    "cosine": unary("cosine", "tensor<8xf32>", FAR, np.cos(FAR.astype(np.float64)), 1e-6),
    "tan": unary("tan", "tensor<8xf32>", FAR, np.tan(FAR.astype(np.float64)), 1e-6),
    "log_plus_one": unary("log_plus_one", "tensor<6xf64>", SMALL, np.log1p(SMALL), 1e-15),
    "exponential_minus_one": unary("exponential_minus_one", "tensor<6xf64>", SMALL, np.expm1(SMALL), 1e-15),
    "maximum_complex": binary(
        "maximum",
        "tensor<3xcomplex<f32>>",
        np.array([1 + 2j, 3 + 1j, 1 + 1j], np.complex64),
        np.array([2 + 1j, 1 + 5j, 1 + 3j], np.complex64),
        np.array([2 + 1j, 3 + 1j, 1 + 3j]),
    ),
    "clamp_complex": Case(
        "clamp",
        "(%x: tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>>",
        """
          %low = stablehlo.constant dense<(1.0, 1.5)> : tensor<complex<f32>>
          %high = stablehlo.constant dense<(1.0, 2.5)> : tensor<complex<f32>>
          %0 = stablehlo.clamp %low, %x, %high
            : (tensor<complex<f32>>, tensor<3xcomplex<f32>>, tensor<complex<f32>>) -> tensor<3xcomplex<f32>>
          return %0 : tensor<3xcomplex<f32>>""",
        (np.array([1 + 2j, 1 + 9j, 0.5 + 9j], np.complex64),),
        np.array([1 + 2j, 1 + 2.5j, 1 + 1.5j]),
    ),
    "reduce_precision": Case(
        "reduce_precision",
        "(%x: tensor<2xf32>) -> tensor<2xf32>",
        "%0 = stablehlo.reduce_precision %x, format = e5m0 : tensor<2xf32>\nreturn %0 : tensor<2xf32>",
        (np.array([NAN, 1.1], np.float32),),
        np.array([INF, 1]),
    ),
    "gather": Case(
        "gather",
        "(%x: tensor<5xf32>, %i: tensor<4x1xui8>) -> tensor<4xf32>",
        """%0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0],
          start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>}>
          : (tensor<5xf32>, tensor<4x1xui8>) -> tensor<4xf32>
        return %0 : tensor<4xf32>""",
        (TABLE, ROWS),
        np.array([0, 2, 4, 4]),
    ),
    "dynamic_slice_i8": Case(
        "dynamic_slice",
        "(%x: tensor<300xf32>, %i: tensor<i8>) -> tensor<2xf32>",
        """%0 = stablehlo.dynamic_slice %x, %i, sizes = [2] : (tensor<300xf32>, tensor<i8>) -> tensor<2xf32>
        return %0 : tensor<2xf32>""",
        (np.arange(300, dtype=np.float32), np.int8(-3)),
        np.array([0, 1]),
    ),
    "dynamic_update_slice_ui64": Case(
        "dynamic_update_slice",
        "(%x: tensor<3xf32>, %u: tensor<1xf32>, %i: tensor<ui64>) -> tensor<3xf32>",
        """%0 = stablehlo.dynamic_update_slice %x, %u, %i
          : (tensor<3xf32>, tensor<1xf32>, tensor<ui64>) -> tensor<3xf32>
        return %0 : tensor<3xf32>""",
        (np.zeros(3, np.float32), np.ones(1, np.float32), np.uint64(2**63 + 1)),
        np.array([0, 0, 1]),
    ),
    "top_k_ties": Case(
        "sort",
        "(%x: tensor<5x3xi32>) -> tensor<5x2xi32>",
        """%0, %1 = chlo.top_k(%x, k = 2) : tensor<5x3xi32> -> (tensor<5x2xi32>, tensor<5x2xi32>)
        return %1 : tensor<5x2xi32>""",
        (np.array([[3, 1, 3], [2, 2, 1], [1, 1, 1], [0, 5, 5], [7, 7, 8]], np.int32),),
        np.array([[0, 2], [0, 1], [0, 1], [1, 2], [2, 0]]),
    ),
    "sort_stable": stable_sort(TIED, np.argsort(TIED, kind="stable")),
}


def fft(kind: str, n: int, x: Array, expected: Array) -> Case:
    rows = len(x)
    t = f"tensor<{rows}x{n}xcomplex<f64>>"
    body = f"%0 = stablehlo.fft %x, type = {kind}, length = [{rows}, {n}] : ({t}) -> {t}\nreturn %0 : {t}"
    return Case("fft", f"(%x: {t}) -> {t}", body, (x,), expected, 1e-12)


def complex_normal(*shape: int) -> Array:
    return RNG.normal(size=shape) + 1j * RNG.normal(size=shape)


Z5, Z74, Z257 = complex_normal(2, 5), complex_normal(2, 74), complex_normal(1, 257)
A, B = RNG.normal(size=(2, 4, 4)), RNG.normal(size=(2, 4, 3))
SPD = A @ A.transpose(0, 2, 1) + 4 * np.eye(4)
T44, T43 = "tensor<2x4x4xf64>", "tensor<2x4x3xf64>"

REJECTED = {
    "constant_c128": Case(
        "constant",
        f"() -> {C2}",
        f"%0 = stablehlo.constant dense<[(1.0, 2.0), (3.0, -0.0)]> : {C2}\nreturn %0 : {C2}",
        (),
        np.array([1 + 2j, complex(3, -0.0)]),
    ),
    "cbrt_f64": unary(
        "cbrt",
        "tensor<4xf64>",
        np.array([1e300, -27, 1e-200, INF]),
        np.array([1e100, -3, np.cbrt(1e-200), INF]),
        1e-15,
    ),
    "bitcast_convert": Case(
        "bitcast_convert",
        "(%x: tensor<complex<f64>>) -> tensor<2xcomplex<f32>>",
        """%0 = stablehlo.bitcast_convert %x : (tensor<complex<f64>>) -> tensor<2xcomplex<f32>>
        return %0 : tensor<2xcomplex<f32>>""",
        (np.array(1.1 + 2.3j),),
        np.array([1.1 + 2.3j]).view(np.complex64),
    ),
    "scatter_window": Case(
        "scatter",
        "(%x: tensor<6xf32>, %i: tensor<2x1xi32>, %u: tensor<2x3xf32>) -> tensor<6xf32>",
        """%0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<
          update_window_dims = [1], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
          ^bb0(%a: tensor<f32>, %b: tensor<f32>):
            stablehlo.return %b : tensor<f32>
          }) : (tensor<6xf32>, tensor<2x1xi32>, tensor<2x3xf32>) -> tensor<6xf32>
        return %0 : tensor<6xf32>""",
        (
            np.zeros(6, np.float32),
            np.array([[0], [4]], np.int32),
            np.arange(1, 7, dtype=np.float32).reshape(2, 3),
        ),
        np.array([1, 2, 3, 0, 4, 5]),
    ),
    "scatter_two_operands": Case(
        "scatter",
        "(%x: tensor<4xf32>, %i: tensor<5x1xi32>, %u: tensor<5xf32>) -> tensor<4xf32>",
        """%0:2 = "stablehlo.scatter"(%x, %x, %i, %u, %u) <{scatter_dimension_numbers = #stablehlo.scatter<
          inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
          ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<f32>, %d: tensor<f32>):
            %s = stablehlo.add %a, %c : tensor<f32>
            %p = stablehlo.maximum %b, %d : tensor<f32>
            stablehlo.return %s, %p : tensor<f32>, tensor<f32>
          }) : (tensor<4xf32>, tensor<4xf32>, tensor<5x1xi32>, tensor<5xf32>, tensor<5xf32>)
            -> (tensor<4xf32>, tensor<4xf32>)
        return %0#0 : tensor<4xf32>""",
        (TABLE[:4], STARTS, UPDATES[:, 0].copy()),
        scattered(TABLE[:4, None], STARTS, UPDATES[:, :1])[:, 0],
    ),
    "reverse_unsigned": Case(
        "reverse",
        "(%x: tensor<3xui8>) -> tensor<3xui8>",
        "%0 = stablehlo.reverse %x, dims = [0] : tensor<3xui8>\nreturn %0 : tensor<3xui8>",
        (np.array([1, 2, 200], np.uint8),),
        np.array([200, 2, 1]),
    ),
    "dot_empty": Case(
        "dot_general",
        "(%x: tensor<2x0xf32>, %y: tensor<0x3xf32>) -> tensor<2x3xf32>",
        """%0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
          : (tensor<2x0xf32>, tensor<0x3xf32>) -> tensor<2x3xf32>
        return %0 : tensor<2x3xf32>""",
        (np.zeros((2, 0), np.float32), np.zeros((0, 3), np.float32)),
        np.zeros((2, 3)),
    ),
    "fft_5": fft("FFT", 5, Z5, np.fft.fft2(Z5)),
    "fft_74": fft("IFFT", 74, Z74, np.fft.ifft2(Z74)),
    "fft_257": fft("FFT", 257, Z257, np.fft.fft2(Z257)),
    "cholesky": Case(
        "cholesky",
        f"(%a: {T44}) -> {T44}",
        f"%0 = stablehlo.cholesky %a, lower = true : {T44}\nreturn %0 : {T44}",
        (SPD,),
        np.linalg.cholesky(SPD),
        1e-13,
    ),
    "triangular_solve": Case(
        "triangular_solve",
        f"(%a: {T44}, %b: {T43}) -> {T43}",
        f"""%0 = "stablehlo.triangular_solve"(%a, %b) <{{left_side = true, lower = false, unit_diagonal = false,
          transpose_a = #stablehlo<transpose TRANSPOSE>}}> : ({T44}, {T43}) -> {T43}
        return %0 : {T43}""",
        (A, B),
        np.linalg.solve(np.triu(A).transpose(0, 2, 1), B),
        1e-10,
    ),
}
UNSAFE = {
    "reduce_precision_bf16": Case(
        "reduce_precision",
        "(%x: tensor<3xf32>) -> tensor<3xf32>",
        """%0 = stablehlo.convert %x : (tensor<3xf32>) -> tensor<3xbf16>
        %1 = stablehlo.reduce_precision %0, format = e8m23 : tensor<3xbf16>
        %2 = stablehlo.convert %1 : (tensor<3xbf16>) -> tensor<3xf32>
        return %2 : tensor<3xf32>""",
        (np.array([1.5, -0.25, 2.0**100], np.float32),),
        np.array([1.5, -0.25, 2.0**100]),
    ),
    "scatter_out_of_range": Case(
        "scatter",
        "(%x: tensor<2x4xf32>, %i: tensor<5x1xi32>, %u: tensor<5x2xf32>) -> tensor<2x4xf32>",
        """%0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<
          update_window_dims = [1], inserted_window_dims = [1], scatter_dims_to_operand_dims = [1],
          index_vector_dim = 1>}> ({
          ^bb0(%a: tensor<f32>, %b: tensor<f32>):
            %s = stablehlo.add %a, %b : tensor<f32>
            stablehlo.return %s : tensor<f32>
          }) : (tensor<2x4xf32>, tensor<5x1xi32>, tensor<5x2xf32>) -> tensor<2x4xf32>
        return %0 : tensor<2x4xf32>""",
        (TABLE[:4] * np.ones((2, 1), np.float32), STARTS, UPDATES),
        scattered(TABLE[:4, None] * np.ones(2), STARTS, UPDATES).T,
    ),
}

WRONG |= windows.WRONG | halves.WRONG
REJECTED |= windows.REJECTED | loops.REJECTED
UNSAFE |= loops.UNSAFE
CASES = WRONG | REJECTED | UNSAFE
