"""Products of arrays as products of matrices, for IREE: equal numbers, and the products that stay."""

from collections.abc import Sequence

import numpy as np
import pytest
from harness.compare import compare
from harness.one_module import compiled_together

import tiduc
from tiduc.backends.iree.fast.flat_products import flat_products
from tiduc.dialect.context import parse


def product(x: Sequence[int], y: Sequence[int], numbers: str, result: Sequence[int]) -> str:
    a, b, c = (f"tensor<{'x'.join([*map(str, sizes), 'f64'])}>" for sizes in (x, y, result))
    return f"""func.func @main(%x: {a}, %y: {b}) -> {c} {{
      %0 = stablehlo.dot_general %x, %y, {numbers}, precision = [HIGHEST, HIGHEST] : ({a}, {b}) -> {c}
      return %0 : {c}
    }}"""


FLAT = {
    "rows": ([4, 5, 6], [6, 7], "contracting_dims = [2] x [0]", [4, 5, 7]),
    "summed": ([4, 5, 6], [4, 5, 7], "contracting_dims = [0, 1] x [0, 1]", [6, 7]),
    "summed, out of order": ([4, 5, 6], [4, 5, 7], "contracting_dims = [1, 0] x [1, 0]", [6, 7]),
    "both": ([2, 3, 4, 5], [4, 5, 6], "contracting_dims = [2, 3] x [0, 1]", [2, 3, 6]),
    "columns first": ([5, 4, 6], [7, 5, 4], "contracting_dims = [0, 1] x [1, 2]", [6, 7]),
    "batches": (
        [3, 4, 5, 2, 6], [2, 6, 3, 7], "batching_dims = [3, 0] x [0, 2], contracting_dims = [4] x [1]",
        [2, 3, 4, 5, 7],
    ),
    "vector": ([4, 5, 6], [6], "contracting_dims = [2] x [0]", [4, 5]),
    "outer": ([4, 5], [6], "contracting_dims = [] x []", [4, 5, 6]),
    "number": ([4, 5], [4, 5], "contracting_dims = [0, 1] x [0, 1]", []),
}  # fmt: skip
OTHER = {
    "matrices": ([4, 6], [6, 7], "contracting_dims = [1] x [0]", [4, 7]),
    "one batch": ([3, 4, 6], [3, 6, 7], "batching_dims = [0] x [0], contracting_dims = [2] x [1]", [3, 4, 7]),
    "rows apart": ([4, 6, 5], [6, 7], "contracting_dims = [1] x [0]", [4, 5, 7]),
    "summed apart": ([4, 6, 5], [4, 5, 7], "contracting_dims = [0, 2] x [0, 1]", [6, 7]),
    "transposed sums": ([4, 5, 6], [5, 4, 7], "contracting_dims = [0, 1] x [1, 0]", [6, 7]),
}


@pytest.fixture(scope="module")
def compiled() -> dict[str, tiduc.Executable]:
    return compiled_together({name: product(*FLAT[name]) for name in FLAT})


@pytest.mark.parametrize("name", FLAT)
def test_flat(name: str, compiled: dict[str, tiduc.Executable]) -> None:
    text = product(*FLAT[name])
    module = parse(text)
    assert flat_products(module) == 1
    module.operation.verify()
    assert flat_products(module) == 0
    assert "precision = [HIGHEST, HIGHEST]" in str(module)
    x, y = (np.random.default_rng(0).standard_normal(FLAT[name][i]) for i in (0, 1))
    compare(compiled[name](x, y), tiduc.load(text).compile(engine="reference")(x, y), 1e-13)


@pytest.mark.parametrize("name", OTHER)
def test_other_products_stay(name: str) -> None:
    module = parse(product(*OTHER[name]))
    assert flat_products(module) == 0
