"""Tests the pass that rewrites `dot_general` as products of matrices for IREE, and which products it leaves."""

from collections.abc import Sequence

import numpy as np
import pytest
from harness.compare import compare
from harness.one_module import Joined, compiled_as_one

import tiduc
from tiduc.backends.iree.fast.products.flat_products import flat_products
from tiduc.dialect.mlir.context import parse


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
def compiled() -> Joined:
    return compiled_as_one({name: product(*FLAT[name]) for name in FLAT})


@pytest.mark.parametrize("name", FLAT)
def test_flat(name: str, compiled: Joined) -> None:
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


EXCHANGED = {
    "matrices": (([4, 6], [6, 7], "contracting_dims = [1] x [0]", [4, 7]), [1, 0]),
    "one summed element": (([1, 6], [1, 7], "contracting_dims = [0] x [0]", [6, 7]), [1, 0]),
    "batches": (
        ([3, 4, 6], [6, 3, 7], "batching_dims = [0] x [1], contracting_dims = [2] x [0]", [3, 4, 7]), [0, 2, 1],
    ),
    "rows": (([4, 5, 6], [6, 7], "contracting_dims = [2] x [0]", [4, 5, 7]), [2, 0, 1]),
}  # fmt: skip
"""For each name: arguments of `product`, and the order of dimensions by which the result is then transposed."""


@pytest.mark.parametrize("name", EXCHANGED)
def test_products_that_are_read_transposed(name: str) -> None:
    """A product that is only read transposed is computed with swapped operands, without a transpose.

    If the product is also a result, the transpose stays.
    """
    given, order = EXCHANGED[name]
    sizes = given[-1]
    y, z = (f"tensor<{'x'.join(map(str, n))}xf64>" for n in (sizes, [sizes[d] for d in order]))
    transpose = f"%1 = stablehlo.transpose %0, dims = {order} : ({y}) -> {z}"
    text = product(*given).replace(f"return %0 : {y}", f"{transpose}\n      return %1 : {z}")
    text = text.replace(f") -> {y} {{", f") -> {z} {{")
    module = parse(text)
    assert flat_products(module) >= 1
    module.operation.verify()
    assert "stablehlo.transpose" not in str(module)
    arguments = [np.random.default_rng(0).standard_normal(n) for n in given[:2]]
    program = tiduc.load(text)
    compare([program.compile()(*arguments)], [program.compile(engine="reference")(*arguments)], 1e-13)
    both = text.replace(f"return %1 : {z}", f"return %1, %0 : {z}, {y}").replace(
        f"-> {z} {{", f"-> ({z}, {y}) {{"
    )
    flat_products(module := parse(both))
    assert "stablehlo.transpose" in str(module)


def test_other_orders_stay() -> None:
    """A transpose of a product remains if it only reorders the product's two row dimensions."""
    text = (
        product(*FLAT["rows"])
        .replace(
            "return %0 : tensor<4x5x7xf64>",
            """
      %1 = stablehlo.transpose %0, dims = [1, 0, 2] : (tensor<4x5x7xf64>) -> tensor<5x4x7xf64>
      return %1 : tensor<5x4x7xf64>""",
        )
        .replace(") -> tensor<4x5x7xf64> {", ") -> tensor<5x4x7xf64> {")
    )
    module = parse(text)
    assert flat_products(module) == 1 and "stablehlo.transpose" in str(module)


@pytest.mark.parametrize("row", [[1, 6], [6], [6, 1, 1]])
def test_one_row(row: Sequence[int]) -> None:
    """If one operand of a product has one row, the pass makes the matrix the first operand; values stay correct."""
    summed, ones = row.index(6), [1] * (len(row) - 1)
    text = product(row, [7, 6], f"contracting_dims = [{summed}] x [1]", [*ones, 7])
    module = parse(text)
    assert flat_products(module) >= 1
    module.operation.verify()
    assert "dot_general %arg1, " in str(module)
    arguments = [np.random.default_rng(0).standard_normal(n) for n in (row, [7, 6])]
    program = tiduc.load(text)
    compare([program.compile()(*arguments)], [program.compile(engine="reference")(*arguments)], 1e-13)
    module = parse(product([7, 6], row, f"contracting_dims = [1] x [{summed}]", [7, *ones]))
    flat_products(module)
    assert "dot_general %arg0, " in str(module)
