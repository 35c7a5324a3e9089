"""Contractions: each kind of dimension in each order, mixed element types, and complex values."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from harness.check_rule import check_rule
from harness.one_module import compiled_together
from harness.tensors import normal, tensor
from hypothesis import given, settings
from hypothesis import strategies as st

from tiduc.loading import load

RNG = np.random.default_rng(0)
random = partial(normal, RNG)


def dot_general(
    sizes: list[list[int]],
    batching: list[list[int]],
    contracting: list[list[int]],
    elements: tuple[str, str, str] = ("f64", "f64", "f64"),
    more: str = "",
    operands: str = "%x, %y",
) -> str:
    result = [sizes[0][i] for i in batching[0]]
    for side in (0, 1):
        result += [n for i, n in enumerate(sizes[side]) if i not in batching[side] + contracting[side]]
    x, y, z = (tensor(s, e) for s, e in zip((*sizes, result), elements, strict=True))
    return f"""
    func.func @main(%x: {x}, %y: {y}) -> {z} {{
      %0 = stablehlo.dot_general {operands}, batching_dims = {batching[0]} x {batching[1]},
        contracting_dims = {contracting[0]} x {contracting[1]}{more} : ({x}, {y}) -> {z}
      return %0 : {z}
    }}"""


def check(sizes: list[list[int]], *numbers: list[list[int]], element: str = "f64") -> None:
    text = dot_general(sizes, *numbers, elements=(element,) * 3)
    check_rule(text, *(random(s, element) for s in sizes), order=2)


@pytest.mark.sampled(14)
@pytest.mark.parametrize("element", ["f64", "complex<f64>"])
@pytest.mark.parametrize(
    ("sizes", "batching", "contracting"),
    [
        ([[2, 3], [3, 4]], [[], []], [[1], [0]]),
        ([[3, 2], [4, 3]], [[], []], [[0], [1]]),
        ([[3], [3]], [[], []], [[0], [0]]),  # a scalar result
        ([[], []], [[], []], [[], []]),
        ([[2], [3]], [[], []], [[], []]),  # an outer product
        ([[2, 3], [2, 3]], [[0, 1], [0, 1]], [[], []]),  # an elementwise product
        ([[2, 3], [3, 2]], [[0, 1], [1, 0]], [[], []]),
        ([[2, 3, 4], [4, 3, 2]], [[], []], [[0, 2], [2, 0]]),
        ([[2, 5, 3, 4], [4, 2, 3, 2]], [[0], [3]], [[3, 2], [0, 2]]),
        ([[4, 2, 3], [3, 5, 4]], [[0], [2]], [[2], [0]]),
        ([[0, 3], [3, 2]], [[], []], [[1], [0]]),
        ([[1, 1], [1, 1]], [[0], [0]], [[1], [1]]),
    ],
)
def test_dimensions(
    sizes: list[list[int]], batching: list[list[int]], contracting: list[list[int]], element: str
) -> None:
    check(sizes, batching, contracting, element=element)


@pytest.mark.parametrize("element", ["f64", "complex<f64>"])
def test_with_itself(element: str) -> None:
    text = dot_general([[3, 3], [3, 3]], [[], []], [[1], [0]], (element,) * 3, operands="%x, %x")
    check_rule(text, random([3, 3], element), random([3, 3], element))


@pytest.mark.parametrize("sizes", [([3], [3]), ([2, 3], [3]), ([3], [3, 2]), ([2, 3], [3, 4])])
@pytest.mark.parametrize("element", ["f64", "complex<f64>"])
def test_dot(sizes: tuple[list[int], list[int]], element: str) -> None:
    x, y, z = (tensor(s, element) for s in (*sizes, [*sizes[0][:-1], *sizes[1][1:]]))
    text = f"""
    func.func @main(%x: {x}, %y: {y}) -> {z} {{
      %0 = stablehlo.dot %x, %y, precision = [HIGH, DEFAULT] : ({x}, {y}) -> {z}
      return %0 : {z}
    }}"""
    check_rule(text, *(random(s, element) for s in sizes))


@st.composite
def contractions(draw: Any) -> tuple[list[list[int]], list[list[int]], list[list[int]]]:
    """Random sizes and dimension numbers. On each side, batch, contracting and free dimensions are in random order."""
    size = st.integers(1, 3)
    batch, sums = (draw(st.lists(size, max_size=2)) for _ in range(2))
    sizes, batching, contracting = [], [], []
    for _ in range(2):
        kept = draw(st.lists(size, max_size=2))
        shared = [*batch, *sums]
        order = draw(st.permutations(range(len(shared) + len(kept))))
        sizes.append([[*shared, *kept][i] for i in order])
        batching.append([order.index(i) for i in range(len(batch))])
        contracting.append([order.index(i) for i in range(len(batch), len(shared))])
    return sizes, batching, contracting


@settings(max_examples=40, deadline=None, derandomize=True)
@given(contractions(), st.sampled_from(["f64", "complex<f64>"]))
def test_random_dimensions(
    numbers: tuple[list[list[int]], list[list[int]], list[list[int]]], element: str
) -> None:
    sizes, batching, contracting = numbers
    text = dot_general(sizes, batching, contracting, (element,) * 3)
    check_rule(text, *(random(s, element) for s in sizes), subsets=False, order=1)


MIXED = {"".join(e): e for e in (("f32", "f32", "f64"), ("f64", "f64", "f32"), ("f32", "f64", "f64"))}


@pytest.fixture(scope="module")
def of_mixed() -> dict[str, Any]:
    """The compiled VJPs by name. IREE compiles them, because the reference interpreter refuses mixed element types."""
    texts = {name: dot_general([[2, 3], [3, 4]], [[], []], [[1], [0]], each) for name, each in MIXED.items()}
    return compiled_together({name: load(text).vjp().text for name, text in texts.items()})


@pytest.mark.parametrize("name", MIXED)
def test_mixed_element_types(name: str, of_mixed: dict[str, Any]) -> None:
    """For operands of different types, each cotangent has the type of its operand, and the factors of its product are
    not rounded before the product.
    """
    elements = MIXED[name]
    x, y, ct = (
        random(s).astype({"f32": np.float32, "f64": np.float64}[e])
        for s, e in zip(([2, 3], [3, 4], [2, 4]), elements, strict=True)
    )
    *_, cx, cy = of_mixed[name](x, y, ct)
    assert (cx.dtype, cy.dtype) == (x.dtype, y.dtype)
    for actual, operands in ((cx, (ct, y.T)), (cy, (x.T, ct))):
        expected = operands[0].astype(np.float64) @ operands[1].astype(np.float64)
        np.testing.assert_allclose(
            actual, expected, rtol=0, atol=1e-6 if actual.dtype == np.float32 else 1e-14
        )


def test_narrow_operands() -> None:
    """With bf16 operands and an f32 result, the contractions of the VJP are computed in f32, and the cotangents are
    rounded once.
    """
    text = dot_general([[2, 3], [3, 4]], [[], []], [[1], [0]], ("bf16", "bf16", "f32"))
    transposed = str(load(text).vjp())
    assert transposed.count("(tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<2x3xf32>") == 1
    assert transposed.count("(tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<3x4xf32>") == 1
    assert transposed.count("(tensor<2x3xf32>) -> tensor<2x3xbf16>") == 1


def test_an_integer_result_has_no_tangent() -> None:
    text = dot_general([[2, 3], [3, 4]], [[], []], [[1], [0]], ("f64", "f64", "i32"))
    text = text.replace(
        "return %0", "%1 = stablehlo.convert %0 : (tensor<2x4xi32>) -> tensor<2x4xf64> return %1"
    )
    transposed = str(
        load(
            text.replace("-> tensor<2x4xi32> {", "-> tensor<2x4xf64> {").replace(
                "return %1 : tensor<2x4xi32>", "return %1 : tensor<2x4xf64>"
            )
        ).vjp()
    )
    assert transposed.count("stablehlo.dot_general") == 1


def test_real_times_complex() -> None:
    elements = ("f64", "complex<f64>", "complex<f64>")
    text = dot_general([[2, 3], [3, 4]], [[], []], [[1], [0]], elements)
    program = str(load(text).vjp())
    assert "tensor<2x3xcomplex<f64>>) -> tensor<2x3xf64>" in program


ALGORITHM = """, algorithm = <lhs_precision_type = tf32, rhs_precision_type = tf32, accumulation_type = f32,
    lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1,
    allow_imprecise_accumulation = false>"""


@pytest.mark.parametrize(
    ("more", "carried"),
    [
        (", precision = [HIGHEST, HIGH]", "precision = [HIGHEST, HIGH]"),
        (ALGORITHM, "lhs_precision_type = tf32"),
    ],
)
def test_precision_is_carried_over(more: str, carried: str) -> None:
    """In the VJP, the cotangent of the result takes the place of one operand.

    Each operand's precision stays on its side of the contraction.
    """
    text = dot_general([[2, 3], [3, 4]], [[], []], [[1], [0]], ("f32", "f32", "f32"), more)
    assert str(load(text).vjp()).count(carried) == 3


def test_empty_contraction() -> None:
    """The transpose of a contraction over an empty dimension contains no product, which the reference interpreter could
    not evaluate.
    """
    text = dot_general([[2, 0], [0, 3]], [[], []], [[1], [0]])
    assert "tensor<2x3xf64>, tensor<0x3xf64>" not in str(load(text).vjp())


def test_no_transposition_of_a_matrix_product() -> None:
    text = dot_general([[2, 3], [3, 4]], [[], []], [[1], [0]])
    assert "stablehlo.transpose" not in str(load(text).vjp())
