"""Compares conversions of all 8-bit floats with NumPy, and arithmetic on pairs of them with the interpreter."""

import ml_dtypes
import numpy as np
import pytest
from harness.one_module import Given, Programs, Results
from numpy.typing import NDArray

from tiduc.backends.reference.interpreter import evaluate
from tiduc.loading import load

Array = NDArray[np.generic]

FLOAT8 = {
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
}
FAST = ("f8E5M2", "f8E4M3FNUZ")
"""The types of the fast tests: one with infinities, and one without infinities and negative zero."""
EACH = [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in FLOAT8]
PROGRAMS = Programs()
INTEGERS = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "ui8": np.uint8, "ui32": np.uint32}


def converts(n: int, of: str, *to: str) -> str:
    results = ", ".join(f"tensor<{n}x{type_}>" for type_ in to)
    lines = [
        f"%{i} = stablehlo.convert %x : (tensor<{n}x{of}>) -> tensor<{n}x{type_}>"
        for i, type_ in enumerate(to)
    ]
    values = ", ".join(f"%{i}" for i in range(len(to)))
    lines.append(f"return {values} : {results}")
    return f"func.func @main(%x: tensor<{n}x{of}>) -> ({results}) {{\n" + "\n".join(lines) + "\n}"


@pytest.fixture(scope="module")
def all_results(request: pytest.FixtureRequest) -> dict[str, dict[str, Results]]:
    return PROGRAMS.results(request)


@pytest.fixture
def results(request: pytest.FixtureRequest, all_results: dict[str, dict[str, Results]]) -> Results:
    """Fixture: the arguments and the results of the program of the requesting test."""
    return all_results[request.node.name]["f"]


@PROGRAMS.of_test
def from_float8(of: str) -> dict[str, Given]:
    x = np.arange(256, dtype=np.uint8).view(FLOAT8[of])
    return {"f": (converts(256, of, "f32", "f64", "bf16", "f16", *INTEGERS), [x])}


@pytest.mark.parametrize("of", FLOAT8)
def test_from_float8(results: Results, of: str) -> None:
    (x,), (*floats, half) = results[0], results[1][:4]
    wide = x.astype(np.float64)
    for y in floats:
        np.testing.assert_array_equal(y.astype(np.float64), wide)
    exact = x.astype(np.float16)
    # On CPUs without f16 instructions (x86-64-v2 and older), subnormal numbers become 0.
    flushed = np.where(np.abs(wide) < np.finfo(np.float16).smallest_normal, 0 * exact, exact)
    np.testing.assert_array_equal(half, flushed if np.array_equal(half, flushed, equal_nan=True) else exact)
    for y in results[1][4:]:
        info = np.iinfo(y.dtype)
        np.testing.assert_array_equal(
            y, np.clip(np.nan_to_num(wide, posinf=1e18, neginf=-1e18), info.min, info.max).astype(np.int64)
        )


def halfway(to: str) -> Array:
    """f32 arguments for a conversion: all finite values of the type `to`, midpoints, and special values.

    Numbers just above and below each midpoint of two neighbours are included.
    """
    every = np.arange(256, dtype=np.uint8).view(FLOAT8[to]).astype(np.float32)
    at = np.unique(every[np.isfinite(every)])
    middle = (at[1:] + at[:-1]) / 2
    x = np.concatenate(
        [at, middle, np.nextafter(middle, np.float32(9e9)), np.nextafter(middle, np.float32(-9e9))]
    )
    return np.append(x, np.array([np.inf, -np.inf, np.nan, -0.0, 0.0, 1e30, -1e30, 1e-30], np.float32))


@PROGRAMS.of_test
def to_float8(to: str) -> dict[str, Given]:
    x = halfway(to)
    # These f64 numbers are so close to a midpoint that rounding to f32 first would give a wrong result.
    wide = np.concatenate(
        [x, np.nextafter(x.astype(np.float64), 9e99), np.nextafter(x.astype(np.float64), -9e99)]
    )
    return {"f32": (converts(x.size, "f32", to), [x]), "f64": (converts(wide.size, "f64", to), [wide])}


@pytest.mark.parametrize("to", FLOAT8)
def test_to_float8(
    request: pytest.FixtureRequest, all_results: dict[str, dict[str, Results]], to: str
) -> None:
    (x,), (y,) = all_results[request.node.name]["f32"]
    np.testing.assert_array_equal(y.astype(np.float32), x.astype(FLOAT8[to]).astype(np.float32))
    (wide,), (y,) = all_results[request.node.name]["f64"]
    np.testing.assert_array_equal(y.astype(np.float32), once(wide, to))


def once(x: Array, to: str) -> Array:
    """Rounds f64 numbers to 8 bits with a single rounding error.

    Rounds to odd in f32 first. Then ml_dtypes's rounding from f32 to 8 bits gives the result of a single rounding.
    """
    odd = x.astype(np.float32)
    low = (odd.view(np.int32) & 1) == 0
    away, near = np.abs(odd.astype(np.float64)), np.abs(x)
    odd = np.where(low & (away < near), np.nextafter(odd, np.copysign(np.float32(np.inf), odd)), odd)
    odd = np.where(low & (away > near), np.nextafter(odd, np.float32(0)), odd)
    return odd.astype(FLOAT8[to]).astype(np.float32)


ELEMENTWISE = {
    **dict.fromkeys("add subtract multiply divide maximum minimum power".split(), "%x, %y"),
    **dict.fromkeys("abs negate sign sqrt floor exponential log tanh sine".split(), "%x"),
    "clamp": "%y, %x, %y",
}
RELATIONS = ("EQ", "NE", "LT", "LE", "GT", "GE")


def elementwise_ops(of: str, n: int) -> str:
    """The text of a program with all elementwise ops.

    The arguments are bit patterns. The results are bit patterns and predicates.
    """
    codes, numbers, truths = (f"tensor<{n}x{type_}>" for type_ in ("i8", of, "i1"))
    lines = [f"%{v} = stablehlo.bitcast_convert %{v}_code : ({codes}) -> {numbers}\n" for v in ("x", "y")]
    for name, operands in ELEMENTWISE.items():
        lines.append(f"%{name}_ = stablehlo.{name} {operands} : {numbers}\n")
        lines.append(f"%{name} = stablehlo.bitcast_convert %{name}_ : ({numbers}) -> {codes}\n")
    for name in RELATIONS:
        lines.append(f"%{name} = stablehlo.compare {name}, %x, %y : ({numbers}, {numbers}) -> {truths}\n")
    lines.append(f"%finite = stablehlo.is_finite %x : ({numbers}) -> {truths}\n")
    values = ", ".join(f"%{name}" for name in [*ELEMENTWISE, *RELATIONS, "finite"])
    types = ", ".join([codes] * len(ELEMENTWISE) + [truths] * (len(RELATIONS) + 1))
    body = "".join(lines)
    return f"func.func @main(%x_code: {codes}, %y_code: {codes}) -> ({types}) {{\n{body}return {values} : {types}\n}}"


@PROGRAMS.of_test
def elementwise(of: str, every: int) -> dict[str, Given]:
    codes = np.arange(256, dtype=np.uint8).view(np.int8)
    second = np.unique(
        np.append(codes[::every], codes[[1, 123, 124, 125, 126, 127, 129, 252, 253, 254, 255]])
    )
    x, y = np.repeat(codes, second.size), np.tile(second, 256)
    return {"f": (elementwise_ops(of, x.size), [x, y])}


@pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("of", EACH)
def test_elementwise(results: Results, of: str, every: int) -> None:
    """Elementwise ops on pairs of a value and each `every`-th value equal the interpreter's, up to the bits of NaN."""
    (x, y), actuals = results
    wanted = evaluate(elementwise_ops(of, x.size), [x, y])
    for name, actual, expected in zip([*ELEMENTWISE, *RELATIONS, "finite"], actuals, wanted, strict=True):
        if actual.dtype == np.int8:
            actual, expected = (z.view(FLOAT8[of]).astype(np.float32) for z in (actual, expected))
            np.testing.assert_array_equal(
                np.signbit(actual[actual == 0]), np.signbit(expected[expected == 0])
            )
        if name == "power" and of == "f8E4M3FNUZ":
            # The exact power, 0.96874993, is so close to the midpoint of two neighbours that either may be returned.
            expected[(x.view(np.uint8) == 117) & (y.view(np.uint8) == 135)] = 1
        np.testing.assert_array_equal(actual, expected, err_msg=name)


@PROGRAMS.of_test
def sums_are_rounded_once() -> dict[str, Given]:
    x = np.arange(256, dtype=np.uint8).view(FLOAT8["f8E4M3FN"])
    pairs = [np.repeat(x, 256), np.tile(x, 256)]
    return {"f": (of_two("stablehlo.add %x, %y", "65536xf8E4M3FN"), pairs)}


def test_sums_are_rounded_once(results: Results) -> None:
    """Sums of 8-bit floats equal ml_dtypes's, which adds in f32 and rounds the sum once."""
    (x, y), (total,) = results
    np.testing.assert_array_equal(total.astype(np.float32), (x + y).astype(np.float32))


def of_two(op: str, type_: str) -> str:
    t = f"tensor<{type_}>"
    return f"func.func @main(%x: {t}, %y: {t}) -> {t} {{\n%0 = {op} : {t}\nreturn %0 : {t}\n}}"


REGIONS = """
  func.func @main(%x: tensor<6x8xT>, %k: tensor<2x3xT>, %at: tensor<3x1xi32>)
      -> (tensor<6xT>, tensor<5x6xT>, tensor<6x8xT>, tensor<6x8xT>, tensor<6x6xT>, tensor<6x6xf32>, tensor<5x6xT>,
          tensor<T>) {
    %zero = stablehlo.constant dense<0.0> : tensor<T>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1]
      : (tensor<6x8xT>, tensor<T>) -> tensor<6xT>
    %1 = "stablehlo.reduce_window"(%x, %zero) ({
      ^bb0(%a: tensor<T>, %b: tensor<T>):
        %m = stablehlo.maximum %a, %b : tensor<T>
        stablehlo.return %m : tensor<T>
      }) {window_dimensions = array<i64: 2, 3>} : (tensor<6x8xT>, tensor<T>) -> tensor<5x6xT>
    %rows = stablehlo.slice %x [0:3, 0:8] : (tensor<6x8xT>) -> tensor<3x8xT>
    %2 = "stablehlo.scatter"(%x, %at, %rows) ({
      ^bb0(%a: tensor<T>, %b: tensor<T>):
        %m = stablehlo.add %a, %b : tensor<T>
        stablehlo.return %m : tensor<T>
      }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0],
        scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}
      : (tensor<6x8xT>, tensor<3x1xi32>, tensor<3x8xT>) -> tensor<6x8xT>
    %3 = "stablehlo.sort"(%x) ({
      ^bb0(%a: tensor<T>, %b: tensor<T>):
        %p = stablehlo.compare LT, %a, %b, TOTALORDER : (tensor<T>, tensor<T>) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
      }) {dimension = 1 : i64} : (tensor<6x8xT>) -> tensor<6x8xT>
    %4 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [1] : (tensor<6x8xT>, tensor<6x8xT>) -> tensor<6x6xT>
    %5 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [1] : (tensor<6x8xT>, tensor<6x8xT>) -> tensor<6x6xf32>
    %image = stablehlo.reshape %x : (tensor<6x8xT>) -> tensor<1x6x8x1xT>
    %kernel = stablehlo.reshape %k : (tensor<2x3xT>) -> tensor<2x3x1x1xT>
    %convolved = stablehlo.convolution(%image, %kernel)
      dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {}
      {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
      : (tensor<1x6x8x1xT>, tensor<2x3x1x1xT>) -> tensor<1x5x6x1xT>
    %6 = stablehlo.reshape %convolved : (tensor<1x5x6x1xT>) -> tensor<5x6xT>
    %n = stablehlo.constant dense<0> : tensor<i32>
    %corner = stablehlo.slice %k [0:1, 0:1] : (tensor<2x3xT>) -> tensor<1x1xT>
    %first = stablehlo.reshape %corner : (tensor<1x1xT>) -> tensor<T>
    %7:2 = stablehlo.while(%i = %n, %s = %first) : tensor<i32>, tensor<T>
      cond {
        %three = stablehlo.constant dense<3> : tensor<i32>
        %p = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
      } do {
        %one = stablehlo.constant dense<1> : tensor<i32>
        %j = stablehlo.add %i, %one : tensor<i32>
        %t = stablehlo.add %s, %s : tensor<T>
        stablehlo.return %j, %t : tensor<i32>, tensor<T>
      }
    return %0, %1, %2, %3, %4, %5, %6, %7#1 : tensor<6xT>, tensor<5x6xT>, tensor<6x8xT>, tensor<6x8xT>, tensor<6x6xT>,
      tensor<6x6xf32>, tensor<5x6xT>, tensor<T>
  }
"""


@pytest.mark.parametrize("of", EACH)
def test_regions_and_products(of: str) -> None:
    """Reductions, windows, scatters, sorts, products and convolutions of 8-bit floats equal NumPy's, rounded once."""
    rng, type_ = np.random.default_rng(0), FLOAT8[of]
    x, k = rng.choice([-1, -0.5, 0, 0.5], (6, 8)), rng.choice([-0.5, 0, 0.5], (2, 3))
    k[0, 0], at = 0.5, np.array([[4], [0], [9]], np.int32)
    results = load(REGIONS.replace("T>", f"{of}>")).compile()(x.astype(type_), k.astype(type_), at)
    added = x.copy()
    added[4] += x[0]
    added[0] += x[1]
    windows = np.lib.stride_tricks.sliding_window_view(x, (2, 3))
    expected = [
        x.sum(1),
        np.maximum(windows.max((2, 3)), 0),
        added,
        np.sort(x, 1),
        x @ x.T,
        x @ x.T,
        np.einsum("ijkl,kl", windows, k),
        8 * k[0, 0],
    ]
    for i, (y, z) in enumerate(zip(results, expected, strict=True)):
        np.testing.assert_array_equal(
            y.astype(np.float64), np.asarray(z).astype(y.dtype).astype(np.float64), str(i)
        )


@PROGRAMS.of_test
def total_order(of: str) -> dict[str, Given]:
    x = np.arange(256, dtype=np.uint8).view(FLOAT8[of])
    text = """func.func @main(%x: tensor<256xT>) -> tensor<256xT> {
      %0 = "stablehlo.sort"(%x) ({
      ^bb0(%a: tensor<T>, %b: tensor<T>):
        %p = stablehlo.compare LT, %a, %b, TOTALORDER : (tensor<T>, tensor<T>) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
      }) {dimension = 0 : i64} : (tensor<256xT>) -> tensor<256xT>
      return %0 : tensor<256xT>
    }"""
    return {"f": (text.replace("T>", f"{of}>"), [x])}


@pytest.mark.parametrize("of", EACH)
def test_total_order(results: Results, of: str) -> None:
    """A sort by total order puts a NaN last, or first if its sign bit is set."""
    _, (y,) = results
    negative = np.arange(255, 127, -1, dtype=np.uint8)
    if of.endswith("UZ"):
        codes = np.concatenate([negative[:-1], np.arange(129, dtype=np.uint8)])
    else:
        codes = np.concatenate([negative, np.arange(128, dtype=np.uint8)])
    np.testing.assert_array_equal(y.view(np.uint8), codes)


@PROGRAMS.of_test
def infinity_of_f16_saturates() -> dict[str, Given]:
    x = np.array([np.inf, -np.inf, np.nan, 65504, -65504, 300, -0.9], np.float16)
    return {"f": (converts(7, "f16", "i32", "ui8"), [x])}


def test_infinity_of_f16_saturates(results: Results) -> None:
    _, (i32, ui8) = results
    assert i32.tolist() == [2**31 - 1, -(2**31), 0, 65504, -65504, 300, 0]
    assert ui8.tolist() == [255, 0, 0, 255, 0, 255, 0]
