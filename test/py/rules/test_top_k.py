"""top_k: the tangents of the selected values are the tangents of the same elements."""

from typing import Any

import numpy as np
import pytest
from harness.check_rule import check_rule, run
from jax import lax

from tiduc.loading import load

RNG = np.random.default_rng(0)


def program(sizes: list[int], k: int) -> str:
    x, y, i = (
        f"tensor<{''.join(f'{n}x' for n in some)}{e}>"
        for some, e in ((sizes, "f64"), ([*sizes[:-1], k], "f64"), ([*sizes[:-1], k], "i32"))
    )
    return f"""
    func.func @main(%x: {x}) -> ({y}, {i}) {{
      %0, %1 = chlo.top_k(%x, k = {k}) : {x} -> ({y}, {i})
      %2 = stablehlo.multiply %0, %0 : {y}
      return %2, %1 : {y}, {i}
    }}"""


@pytest.mark.parametrize(
    ("sizes", "k"), [([5], 3), ([5], 5), ([1], 1), ([4, 6], 2), ([2, 3, 4], 1), ([3, 1], 1), ([0, 3], 2)]
)
def test_takes(sizes: list[int], k: int) -> None:
    check_rule(program(sizes, k), RNG.standard_normal(sizes))


def test_as_jax() -> None:
    def function(x: Any) -> Any:
        return lax.top_k(x, 3)[0] ** 2

    check_rule(program([4, 6], 3), RNG.standard_normal([4, 6]), order=1, jax_function=function)


def test_ties_go_to_the_first() -> None:
    x, dx = np.array([1.0, 2.0, 2.0, 2.0]), np.array([1.0, 10.0, 100.0, 1000.0])
    np.testing.assert_array_equal(run(load(program([4], 2)).jvp(), [x, dx])[2], [40, 400])


def test_call_of_another_name() -> None:
    attributes = "mhlo.attributes = {k = 2 : i64, largest = true}, mhlo.version = 1 : i64"
    text = program([3, 4], 2)
    call = text.replace(
        "chlo.top_k(%x, k = 2) : tensor<3x4xf64>",
        f"stablehlo.custom_call @mhlo.topk(%x) {{{attributes}}} : (tensor<3x4xf64>)",
    )
    assert call != text
    point = list(RNG.standard_normal((2, 3, 4)))
    expected = run(load(text).jvp(), point)
    for actual, wanted in zip(run(load(call).jvp(), point), expected, strict=True):
        np.testing.assert_allclose(actual, wanted)
