"""Tests reductions of rows of uneven length by kernels on CPUs."""

import numpy as np
import pytest
from harness.one_module import Joined, compiled_as_one
from harness.sources import kernels_in
from harness.variants import AVX2, AVX512, SSE4

import tiduc

RNG = np.random.default_rng(0)

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
    assert kernels_in(reduction(*REDUCTIONS[name])) == 1
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
    assert kernels_in(deviations(45, 133)) == 1
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
    assert kernels_in(TRANSPOSED) == 1
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
    assert kernels_in(reduction(op, sizes, dimensions, "f32")) == 0


def test_reductions_of_narrow_vectors() -> None:
    """The length of a row is even or uneven for the vectors of the CPU that is named."""
    text = reduction("add", [64, 152], [1], "f32")
    assert [kernels_in(text, target) for target in (AVX512, AVX2, SSE4)] == [1, 0, 0]


def sums_in_a_loop(rows: int, columns: int) -> str:
    """x becomes x minus the mean of its row, ten times."""
    x, row = f"tensor<{rows}x{columns}xf32>", f"tensor<{rows}xf32>"
    return f"""func.func @main(%x: {x}) -> {x} {{
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %ten = stablehlo.constant dense<10> : tensor<i32>
      %init = stablehlo.constant dense<0.0> : tensor<f32>
      %count = stablehlo.constant dense<{columns}.0> : {row}
      %0:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, {x}
        cond {{
          %1 = stablehlo.compare LT, %i, %ten : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %1 : tensor<i1>
        }} do {{
          %1 = stablehlo.reduce(%y init: %init) applies stablehlo.add across dimensions = [1]
            : ({x}, tensor<f32>) -> {row}
          %2 = stablehlo.divide %1, %count : {row}
          %3 = stablehlo.broadcast_in_dim %2, dims = [0] : ({row}) -> {x}
          %4 = stablehlo.subtract %y, %3 : {x}
          %5 = stablehlo.add %i, %one : tensor<i32>
          stablehlo.return %5, %4 : tensor<i32>, {x}
        }}
      return %0#1 : {x}
    }}"""


def test_reductions_in_loops() -> None:
    """Loops of large arrays have kernels of rows. A loop of small arrays becomes one kernel instead."""
    assert [kernels_in(sums_in_a_loop(64, n)) for n in (61, 1026)] == [0, 1]
    x = RNG.standard_normal((64, 1026)).astype(np.float32)
    (ours,) = tiduc.load(sums_in_a_loop(64, 1026)).compile()(x)
    np.testing.assert_allclose(ours, x - x.mean(1, keepdims=True), rtol=0, atol=1e-6)
