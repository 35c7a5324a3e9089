"""Tests kernels of rows on CPUs: reductions of rows of uneven length, gathers of rows, and products of few rows."""

from typing import Any

import numpy as np
import pytest
from harness.one_module import Joined, compiled_as_one
from harness.sources import source_of
from harness.variants import AVX2, AVX512, SSE4

import tiduc

Arrays = list[Any]
RNG = np.random.default_rng(0)


def executables(text: str, target: str = AVX512) -> int:
    """The number of kernels of a compiled program."""
    return str(source_of(tiduc.load(text), target).stablehlo).count("flow.executable.export")


# ---- reductions ------------------------------------------------------------------------------------------------------

REDUCTIONS = {
    "a row of one vector and a part": ("add", [97, 61], [1], "f32"),
    "long rows": ("add", [5, 12301], [1], "f32"),
    "one row in parts": ("add", [70001], [0], "f32"),
    "all elements": ("add", [7, 9, 71], [0, 1, 2], "f32"),
    "images": ("add", [3, 11, 13, 15], [0, 2, 3], "f32"),
    "f64": ("add", [31, 403], [1], "f64"),
    "maxima": ("maximum", [63, 131], [1], "f32"),
    "minima": ("minimum", [63, 131], [1], "f32"),
    "products": ("multiply", [63, 131], [1], "f32"),
    "maxima of parts": ("maximum", [2, 9001], [1], "f64"),
}
"""For each name: the op, the shape, the reduced dimensions and the element type of a reduction."""


def reduction(op: str, sizes: list[int], dimensions: list[int], kind: str) -> str:
    start = {"add": "0.0", "multiply": "1.0", "maximum": "0xFF800000", "minimum": "0x7F800000"}[op]
    if kind == "f64":
        start = start.replace("800000", "F0000000000000")
    x = f"tensor<{'x'.join(map(str, sizes))}x{kind}>"
    y = f"tensor<{''.join(f'{n}x' for d, n in enumerate(sizes) if d not in dimensions)}{kind}>"
    return f"""func.func @main(%x: {x}) -> {y} {{
      %init = stablehlo.constant dense<{start}> : tensor<{kind}>
      %0 = stablehlo.reduce(%x init: %init) applies stablehlo.{op} across dimensions = {dimensions}
        : ({x}, tensor<{kind}>) -> {y}
      return %0 : {y}
    }}"""


def deviations(rows: int, columns: int) -> str:
    """The sums of 2 |x - mean| |scale| / spread, where the mean and the spread are of a row."""
    x, row, column = f"tensor<{rows}x{columns}xf32>", f"tensor<{rows}xf32>", f"tensor<{columns}xf32>"
    return f"""func.func @main(%x: {x}, %mean: {row}, %spread: {row}, %scale: {column}) -> {row} {{
      %init = stablehlo.constant dense<0.0> : tensor<f32>
      %two = stablehlo.constant dense<2.0> : {x}
      %0 = stablehlo.broadcast_in_dim %mean, dims = [0] : ({row}) -> {x}
      %1 = stablehlo.broadcast_in_dim %spread, dims = [0] : ({row}) -> {x}
      %2 = stablehlo.broadcast_in_dim %scale, dims = [1] : ({column}) -> {x}
      %3 = stablehlo.subtract %x, %0 : {x}
      %4 = stablehlo.multiply %3, %2 : {x}
      %5 = stablehlo.divide %4, %1 : {x}
      %6 = stablehlo.negate %5 : {x}
      %7 = stablehlo.maximum %5, %6 : {x}
      %8 = stablehlo.multiply %7, %two : {x}
      %10 = stablehlo.reduce(%8 init: %init) applies stablehlo.add across dimensions = [1]
        : ({x}, tensor<f32>) -> {row}
      return %10 : {row}
    }}"""


TRANSPOSED = """func.func @main(%x: tensor<6x11x133xf32>, %y: tensor<11x6xf32>, %z: tensor<6xf32>) -> tensor<6x11xf32> {
  %init = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.broadcast_in_dim %y, dims = [1, 0] : (tensor<11x6xf32>) -> tensor<6x11x133xf32>
  %1 = stablehlo.broadcast_in_dim %z, dims = [0] : (tensor<6xf32>) -> tensor<6x11x133xf32>
  %2 = stablehlo.subtract %x, %0 : tensor<6x11x133xf32>
  %3 = stablehlo.multiply %2, %1 : tensor<6x11x133xf32>
  %4 = stablehlo.reduce(%3 init: %init) applies stablehlo.add across dimensions = [2]
    : (tensor<6x11x133xf32>, tensor<f32>) -> tensor<6x11xf32>
  return %4 : tensor<6x11xf32>
}"""
"""The sums of (x - the transpose of y) z, where z has one number for several rows."""


@pytest.fixture(scope="module")
def reductions() -> Joined:
    """Fixture: all reductions, compiled as one function."""
    texts = {name: reduction(*each) for name, each in REDUCTIONS.items()}
    return compiled_as_one({**texts, "deviations": deviations(45, 133), "transposed": TRANSPOSED})


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str, reductions: Joined) -> None:
    """Reductions of rows equal NumPy's in f64, and are NaN if an element is NaN."""
    op, sizes, dimensions, kind = REDUCTIONS[name]
    assert executables(reduction(*REDUCTIONS[name])) == 1
    x = RNG.standard_normal(sizes).astype(kind.replace("f", "float"))
    combine = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum}[op]
    expected = combine.reduce(x.astype(np.float64), tuple(dimensions))
    atol = 1e-12 if kind == "f64" else 3e-7 * np.sqrt(x.size / expected.size)
    np.testing.assert_allclose(reductions[name](x)[0], expected, rtol=0, atol=atol)
    x.flat[-1] = np.nan
    ours = np.asarray(reductions[name](x)[0])
    assert np.isnan(ours.flat[-1]) and np.isnan(ours).sum() == 1


def test_reductions_of_computed_elements(reductions: Joined) -> None:
    """A kernel computes elements from arrays of rows, arrays with a number for each row, and arrays of one row.

    A row of zeros whose spread is 0 is NaN. The elements of a row do not affect other rows.
    """
    assert executables(deviations(45, 133)) == 1
    x, scale = RNG.standard_normal((45, 133)), RNG.standard_normal(133)
    mean, spread = RNG.standard_normal(45), RNG.uniform(0.5, 2, 45)
    x[7], mean[7], spread[7] = 0, 0, 0
    with np.errstate(invalid="ignore"):
        terms = np.abs((x - mean[:, None]) * scale / spread[:, None])
    expected = 2 * terms.sum(1)
    ours = reductions["deviations"](*(each.astype(np.float32) for each in (x, mean, spread, scale)))[0]
    np.testing.assert_allclose(ours, expected, rtol=2e-6)
    assert np.isnan(ours[7])


def test_reductions_with_broadcasts_over_rows(reductions: Joined) -> None:
    """A kernel reads numbers of rows that are transposed, or that belong to several rows."""
    assert executables(TRANSPOSED) == 1
    x, y, z = (RNG.standard_normal(n).astype(np.float32) for n in ((6, 11, 133), (11, 6), (6,)))
    expected = ((x - y.T[..., None]).astype(np.float64) * z[:, None, None]).sum(-1)
    np.testing.assert_allclose(reductions["transposed"](x, y, z)[0], expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("op", "sizes", "dimensions"),
    [
        ("add", [16, 400], [1]),  # IREE's own code uses vectors
        ("add", [401, 61], [0]),
        ("add", [61, 9], [1]),
    ],
)
def test_reductions_that_stay(op: str, sizes: list[int], dimensions: list[int]) -> None:
    assert executables(reduction(op, sizes, dimensions, "f32")) == 0


def test_reductions_of_narrow_vectors() -> None:
    """The length of a row is even or uneven for the vectors of the CPU that is named."""
    text = reduction("add", [64, 152], [1], "f32")
    assert [executables(text, target) for target in (AVX512, AVX2, SSE4)] == [1, 0, 0]


# ---- gathers ---------------------------------------------------------------------------------------------------------


def gather(x: str, indices: str, result: str, numbers: str, sizes: list[int]) -> str:
    taken = ", ".join(map(str, sizes))
    return f"""func.func @main(%x: tensor<{x}>, %i: tensor<{indices}>) -> tensor<{result}> {{
      %0 = "stablehlo.gather"(%x, %i) <{{dimension_numbers = #stablehlo.gather<{numbers}>,
             slice_sizes = array<i64: {taken}>}}> : (tensor<{x}>, tensor<{indices}>) -> tensor<{result}>
      return %0 : tensor<{result}>
    }}"""


def rows_of(x: list[int], dimension: int, count: int, kind: str, index: str) -> str:
    """A gather of `count` slices of an array along a dimension."""
    result = [*x[:dimension], count, *x[dimension + 1 :]]
    kept = [d for d in range(len(x)) if d != dimension]
    numbers = f"offset_dims = {kept}, collapsed_slice_dims = [{dimension}], start_index_map = [{dimension}]"
    texts = ["x".join(map(str, each)) + f"x{kind}" for each in (x, result)]
    taken = [1 if d == dimension else n for d, n in enumerate(x)]
    return gather(texts[0], f"{count}x{index}", texts[1], f"{numbers}, index_vector_dim = 1", taken)


GATHERS = {
    "rows": ([300, 37], 0, 91, "f32", "i64"),
    "narrow rows": ([300, 5], 0, 510, "f32", "i32"),
    "rows of matrices": ([7, 50, 48], 1, 33, "f64", "i8"),
    "integers": ([90, 4, 9], 0, 77, "i32", "ui32"),
    "elements": ([2000], 0, 4001, "f32", "i64"),
    "columns": ([91, 50], 1, 33, "f32", "i64"),
    "pairs of columns": ([91, 50, 2], 1, 33, "i64", "i32"),
}
"""For each name: the shape, the dimension, the number of slices, and the types of elements and indices."""

PAIRS = gather(
    "6x5x7xf32",
    "40x2xi64",
    "40x7xf32",
    "offset_dims = [1], collapsed_slice_dims = [0, 1], start_index_map = [1, 0], index_vector_dim = 1",
    [1, 1, 7],
)
"""A gather at pairs of indices, of which the first is along the second dimension."""


@pytest.fixture(scope="module")
def gathers() -> Joined:
    """Fixture: all gathers, compiled as one function."""
    return compiled_as_one({**{name: rows_of(*each) for name, each in GATHERS.items()}, "pairs": PAIRS})


@pytest.mark.parametrize("name", GATHERS)
def test_gathers(name: str, gathers: Joined) -> None:
    """Gathers of rows equal NumPy's. An index beyond the end reads the last row, and one before it the first."""
    sizes, dimension, count, kind, index = GATHERS[name]
    assert executables(rows_of(*GATHERS[name])) == 1
    x = RNG.integers(-99, 99, sizes).astype({"f": "float", "i": "int"}[kind[0]] + kind[1:])
    at = RNG.integers(0, sizes[dimension], count).astype(f"{'u' * (index[0] == 'u')}int{index.lstrip('ui')}")
    at[0], at[1] = np.iinfo(at.dtype).max, np.iinfo(at.dtype).min
    expected = np.take(x, np.clip(at.astype(np.int64), 0, sizes[dimension] - 1), dimension)
    np.testing.assert_array_equal(gathers[name](x, at)[0], expected)


def test_gathers_at_pairs(gathers: Joined) -> None:
    """Each index of a pair is clamped to its dimension."""
    x, at = RNG.standard_normal((6, 5, 7)).astype(np.float32), RNG.integers(-2, 8, (40, 2))
    expected = x[np.clip(at[:, 1], 0, 5), np.clip(at[:, 0], 0, 4)]
    np.testing.assert_array_equal(gathers["pairs"](x, at)[0], expected)


# ---- products --------------------------------------------------------------------------------------------------------

PRODUCTS = {
    "a vector and columns": ("ik,jk->ij", [1, 1003], [65, 1003], "f32"),
    "a vector and rows": ("ik,kj->ij", [1, 503], [503, 131], "f32"),
    "few rows": ("ik,jk->ij", [3, 517], [143, 517], "f32"),
    "few rows and rows": ("ik,kj->ij", [5, 517], [517, 143], "f32"),
    "few columns": ("ik,jk->ij", [143, 517], [2, 517], "f32"),
    "few columns and rows": ("ki,kj->ij", [517, 143], [517, 7], "f32"),
    "few rows by columns": ("ki,jk->ij", [517, 7], [143, 517], "f64"),
    "batches": ("bik,bjk->bij", [3, 1, 130], [3, 201, 130], "f32"),
    "batches in other orders": ("ibk,kbj->bij", [2, 5, 130], [130, 5, 99], "f64"),
    "few rows and few columns": ("ik,jk->ij", [2, 20001], [3, 20001], "f32"),
}
"""For each name: the formula as in `einsum`, the shapes of both operands, and the element type of a product."""


def product(formula: str, left: list[int], right: list[int], kind: str) -> str:
    (a, b), result = formula.partition("->")[0].split(","), formula.partition("->")[2]
    sizes = dict(zip((*a, *b), (*left, *right), strict=True))
    batches, summed = [d for d in a if d in b and d in result], [d for d in a if d in b and d not in result]
    shapes = left, right, [sizes[d] for d in result]
    x, y, z = (f"tensor<{'x'.join(map(str, each))}x{kind}>" for each in shapes)
    (own, others), (ours, theirs) = ([[e.index(d) for d in of] for e in (a, b)] for of in (batches, summed))
    return f"""func.func @main(%x: {x}, %y: {y}) -> {z} {{
      %0 = stablehlo.dot_general %x, %y, batching_dims = {own} x {others}, contracting_dims = {ours} x {theirs}
        : ({x}, {y}) -> {z}
      return %0 : {z}
    }}"""


@pytest.fixture(scope="module")
def products() -> Joined:
    """Fixture: all products, compiled as one function."""
    return compiled_as_one({name: product(*each) for name, each in PRODUCTS.items()})


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_few_rows(name: str, products: Joined) -> None:
    """Products of few rows or columns equal NumPy's in f64. An infinite element affects only its row and column."""
    formula, left, right, kind = PRODUCTS[name]
    assert all(executables(product(*PRODUCTS[name]), target) == 1 for target in (AVX512, AVX2, SSE4))
    x, y = (RNG.standard_normal(sizes).astype(kind.replace("f", "float")) for sizes in (left, right))
    expected = np.einsum(formula, x.astype(np.float64), y.astype(np.float64))
    atol = (2e-6 if kind == "f32" else 1e-14) * np.abs(expected).max()
    np.testing.assert_allclose(products[name](x, y)[0], expected, rtol=0, atol=atol)
    y.flat[-1] = np.inf
    with np.errstate(invalid="ignore"):
        affected = ~np.isfinite(np.einsum(formula, x, y))
    ours = np.asarray(products[name](x, y)[0])
    np.testing.assert_array_equal(~np.isfinite(ours), affected)
    assert np.isinf(ours[affected]).all()
