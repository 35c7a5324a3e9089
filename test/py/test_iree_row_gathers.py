"""Tests gathers of rows by kernels on CPUs."""

import numpy as np
import pytest
from harness.one_module import Joined, compiled_as_one
from harness.sources import kernels_in

RNG = np.random.default_rng(0)


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


@pytest.fixture(scope="module")
def gathers() -> Joined:
    """Fixture: all gathers, compiled as one function."""
    return compiled_as_one({name: rows_of(*each) for name, each in GATHERS.items()})


@pytest.mark.parametrize("name", GATHERS)
def test_gathers(name: str, gathers: Joined) -> None:
    """Gathers of rows equal NumPy's. An index beyond the end reads the last row, and one before it the first."""
    sizes, dimension, count, kind, index = GATHERS[name]
    assert kernels_in(rows_of(*GATHERS[name])) == 1
    x = RNG.integers(-99, 99, sizes).astype({"f": "float", "i": "int"}[kind[0]] + kind[1:])
    at = RNG.integers(0, sizes[dimension], count).astype(f"{'u' * (index[0] == 'u')}int{index.lstrip('ui')}")
    at[0], at[1] = np.iinfo(at.dtype).max, np.iinfo(at.dtype).min
    expected = np.take(x, np.clip(at.astype(np.int64), 0, sizes[dimension] - 1), dimension)
    np.testing.assert_array_equal(gathers[name](x, at)[0], expected)
