"""gather: indices in and out of range, windows, batches, random dimension numbers, and small and unsigned index
types.
"""

import numpy as np
import pytest
from cases.index_cases import CASES, RNG, ROWS, Indexing, indexings, random
from harness.check_rule import check_rule, run
from hypothesis import given, settings
from hypothesis import strategies as st

from tiduc.loading import load

ONES = "%c = stablehlo.constant dense<1.0> : tensor<5x2xf64>"
INDEX = {
    "i8": np.int8,
    "ui8": np.uint8,
    "i32": np.int32,
    "ui32": np.uint32,
    "i64": np.int64,
    "ui64": np.uint64,
}


@pytest.mark.sampled(16)
@pytest.mark.parametrize("element", ["f64", "complex<f64>"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_cases(case: Indexing, element: str) -> None:
    """Derivatives are right for indices from -2 to beyond the end, some of which are clamped, and some of which are
    equal.
    """
    indices = RNG.integers(-2, 8, case.indices).astype(np.int32)
    check_rule(case.gather(element), random(case.operand, element), indices)


@pytest.mark.parametrize("index", INDEX)
def test_index_types(index: str) -> None:
    """Derivatives are right for all index types, also if a dimension is longer than the largest index, so that the
    bound for clamping could overflow.
    """
    case = Indexing([300, 2], [5, 1], [1, 2], [1], [0], [0], 1)
    greatest = np.iinfo(INDEX[index]).max
    indices = np.array([0, 3, 120, 17 if index.startswith("u") else greatest, 120], INDEX[index])
    check_rule(case.gather(index=index), random(case.operand), indices.reshape(5, 1), order=1)


@pytest.mark.parametrize("index", ["ui8", "ui32", "ui64"])
def test_large_unsigned_indices(index: str) -> None:
    """The VJP of a gather is right for large unsigned indices.

    Only the transpose is tested, because the reference interpreter's gather reads such indices as negative.
    """
    case = Indexing([300, 2], [5, 1], [1, 2], [1], [0], [0], 1)
    greatest = np.iinfo(INDEX[index]).max
    indices = np.array([0, 200, greatest, greatest - 1, 200], INDEX[index])
    x, ct = random(case.operand), random([5, 2])
    text = case.gather(index=index).replace("%0, %0", "%0, %c").replace("%1 =", f"{ONES}\n%1 =")
    _, cx = run(load(text).vjp(), [x, indices.reshape(5, 1), ct])
    expected = np.zeros_like(x)
    np.add.at(expected, np.minimum(indices.astype(float), 299).astype(int), ct)
    np.testing.assert_array_equal(cx, expected)


@pytest.mark.parametrize(("case", "kept"), [("rows", True), ("elements", False)])
def test_sorted_indices(case: str, kept: bool) -> None:
    """The VJP's scatter keeps the attribute `indices_are_sorted` only if clamping preserves the order.

    It may not for pairs: (9, 2) < (10, 1), but (3, 2) > (3, 1) after clamping to 3.
    """
    text = str(load(CASES[case].gather(sorted_=True)).vjp())
    assert ("indices_are_sorted = true" in text.split("stablehlo.scatter")[1]) == kept


def constant(text: str, indices: list[int]) -> str:
    """The text of a gather whose five indices are computed from constants, as JAX exports them."""
    parts = "".join(
        f"%c{i} = stablehlo.constant dense<{n}> : tensor<i32>\n"
        f"%b{i} = stablehlo.broadcast_in_dim %c{i}, dims = [] : (tensor<i32>) -> tensor<1x1xi32>\n"
        for i, n in enumerate(indices)
    )
    names, types = ", ".join(f"%b{i}" for i in range(5)), ", ".join(["tensor<1x1xi32>"] * 5)
    concatenation = f"{parts} %i = stablehlo.concatenate {names}, dim = 0 : ({types}) -> tensor<5x1xi32>\n"
    return text.replace(", %i: tensor<5x1xi32>", "", 1).replace("%0 =", f"{concatenation} %0 =", 1)


@pytest.mark.parametrize(
    ("indices", "clamped"),
    [([0, 3, 2, 2, 0], 0), ([0, 4, 2, 2, 0], 1), ([-1, 3, 2, 2, 0], 1), ([7, 9, 8, 8, 8], 1)],
)
def test_constant_indices(indices: list[int], clamped: int) -> None:
    """The VJP clamps constant indices only if they are out of range."""
    text = constant(ROWS.gather(), indices)
    assert str(load(text).vjp()).count("stablehlo.clamp") == clamped
    check_rule(text, random(ROWS.operand))


def test_clamped_indices_are_known_to_be_inside() -> None:
    """The VJP of a gather's VJP is a gather without a mask, because the clamped indices are known to be in range."""
    assert "stablehlo.compare" not in str(load(ROWS.gather()).vjp().vjp())


def test_against_jax() -> None:
    import jax.numpy as jnp

    indices = np.array([0, 9, 2, 2, -3], np.int32).reshape(5, 1)
    x = random(ROWS.operand)
    check_rule(
        ROWS.gather(), x, indices, jax_function=lambda x, i: jnp.take(x, jnp.clip(i[:, 0], 0, 3), axis=0) ** 2
    )


@settings(max_examples=60, deadline=None, derandomize=True)
@given(indexings(), st.sampled_from(["f64", "complex<f64>"]))
def test_random_numbers(case: Indexing, element: str) -> None:
    indices = RNG.integers(-1, 4, case.indices).astype(np.int32)
    check_rule(case.gather(element), random(case.operand, element), indices, order=1)
